# Compiler settings common to all targets, and poseidon_library(), which makes one folder's target.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(poseidon_settings INTERFACE)
target_include_directories(poseidon_settings INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(poseidon_settings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror -fno-math-errno)
if(POSEIDON_ARCH)
  target_compile_options(poseidon_settings INTERFACE -march=${POSEIDON_ARCH})
endif()
if(POSEIDON_SANITIZE)
  target_compile_options(poseidon_settings INTERFACE
    -fsanitize=${POSEIDON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(poseidon_settings INTERFACE -fsanitize=${POSEIDON_SANITIZE})
endif()

# poseidon_library(NAME LINKS...): every source of this folder, and of its CPU part.
function(poseidon_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/cpu/*.cpp)
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp)
  endif()
  add_library(poseidon_${name} STATIC ${sources})
  target_link_libraries(poseidon_${name} PUBLIC poseidon_settings ${ARGN})
endfunction()
