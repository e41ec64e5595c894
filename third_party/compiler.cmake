# Compiler settings of all targets, and functions such as poseidon_library(), which makes the target of a folder.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings are errors with the compilers that check the project. With other compilers they are not, so that a new
# warning does not stop a user's build. -DCMAKE_COMPILE_WARNING_AS_ERROR=ON|OFF overrides this.
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  string(REGEX MATCH "^[0-9]+" major "${CMAKE_CXX_COMPILER_VERSION}")
  if("${CMAKE_CXX_COMPILER_ID} ${major}" MATCHES "^(GNU 12|Clang 16)$")
    set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
  endif()
endif()

add_library(poseidon_settings INTERFACE)
target_include_directories(poseidon_settings INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(poseidon_settings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # -Wthread-safety checks locks (core/thread_annotations.h). -Wno-pass-failed: a loop marked simd may stay scalar; with
  # the sanitizers most do.
  target_compile_options(poseidon_settings INTERFACE -Wthread-safety -Wno-pass-failed)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 wrongly reports overlapping copies in "words" + string (GCC bug 105651).
  target_compile_options(poseidon_settings INTERFACE -Wno-restrict)
endif()
# Programs of an archive find the libraries in its lib folder (scripts/package). This must be RPATH, not RUNPATH,
# because RPATH also applies to the dependencies of libraries.
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib")
target_link_options(poseidon_settings INTERFACE -Wl,--disable-new-dtags)
if(POSEIDON_SANITIZE)
  target_compile_options(poseidon_settings INTERFACE
    -fsanitize=${POSEIDON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(poseidon_settings INTERFACE -fsanitize=${POSEIDON_SANITIZE})
  if(POSEIDON_NO_SANITIZE)
    target_compile_options(poseidon_settings INTERFACE -fno-sanitize=${POSEIDON_NO_SANITIZE})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ reports code that the sanitizers insert, also in libstdc++, as uses of uninitialized variables.
    target_compile_options(poseidon_settings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(POSEIDON_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "POSEIDON_FUZZ=ON requires clang (libFuzzer), got ${CMAKE_CXX_COMPILER_ID}; "
      "use: cmake --preset asan")
  endif()
endif()
if(POSEIDON_COVERAGE)
  target_compile_options(poseidon_settings INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(poseidon_settings INTERFACE --coverage)
endif()

# Unity builds compile several sources as one. They take less than half the time, most of which is parsing headers.
# Therefore names in unnamed namespaces must be unique within a library and within a test program.
set(POSEIDON_BATCH 8 CACHE STRING "number of sources per unity source (POSEIDON_UNITY); more: shorter first build")
set(CMAKE_UNITY_BUILD_BATCH_SIZE ${POSEIDON_BATCH})
function(poseidon_unite target)
  set_property(TARGET ${target} PROPERTY UNITY_BUILD ${POSEIDON_UNITY})
  if(POSEIDON_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The unity source includes all sources, so g++ treats their unnamed namespaces as those of headers.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# poseidon_control(TARGET): marks control code, which directs kernels, transport and sample readers. A run spends almost
# no time in it, so it is compiled with little optimization to shorten the build.
function(poseidon_control target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)
endfunction()

# poseidon_hide(TARGET): allows the code in a shared library and hides its symbols there.
function(poseidon_hide name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# poseidon_library(NAME LINKS...): a static library of all sources in this folder and its subfolders, except the folders
# of devices, and folders "kernels" (poseidon_kernels()).
function(poseidon_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/${name}/(cpu|replay|cuda)/|/kernels/[^/]+$")
  add_library(poseidon_${name} STATIC ${sources})
  poseidon_unite(poseidon_${name})
  target_link_libraries(poseidon_${name} PUBLIC poseidon_settings ${ARGN})
  # libFuzzer counts branches of these libraries, not those of kernels, where counting is slow.
  if(POSEIDON_FUZZ AND POSEIDON_FUZZ_COUNTERS)
    target_compile_options(poseidon_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# poseidon_device_library(NAME DEVICE LINKS...): a static library of the sources in a device's folder, NAME/DEVICE. Only
# targets that choose a device link it.
function(poseidon_device_library name device)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${device}/*.cpp)
  add_library(poseidon_${name}_${device} STATIC ${sources})
  poseidon_unite(poseidon_${name}_${device})
  target_link_libraries(poseidon_${name}_${device} PUBLIC poseidon_${name} ${ARGN})
endfunction()
