# Compiler settings common to all targets, and poseidon_library(), which makes one folder's target.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings are errors with the compilers the project is checked with. A newer compiler's new warning
# must not stop a user's build; -DCMAKE_COMPILE_WARNING_AS_ERROR=ON|OFF overrides.
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
  # Lock discipline: core/thread_annotations.h. That a loop marked simd stays scalar is no fault here:
  # under the sanitizers most do.
  target_compile_options(poseidon_settings INTERFACE -Wthread-safety -Wno-pass-failed)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in "words" + string where there are none (GCC bug 105651).
  target_compile_options(poseidon_settings INTERFACE -Wno-restrict)
endif()
# Programs and libraries of an archive find each other (scripts/package); in a build there is no such folder.
# RPATH, not RUNPATH, since that counts for the libraries of libraries too.
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
    # g++ takes what the sanitizers insert for uses of variables that were not set, in libstdc++ too.
    target_compile_options(poseidon_settings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(POSEIDON_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "POSEIDON_FUZZ=ON needs clang (libFuzzer), got ${CMAKE_CXX_COMPILER_ID}; "
      "use: cmake --preset asan")
  endif()
endif()
if(POSEIDON_COVERAGE)
  target_compile_options(poseidon_settings INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(poseidon_settings INTERFACE --coverage)
endif()

# Several sources are compiled as one, which takes less than half the time: most of it is reading headers.
# So names in unnamed namespaces differ within a library and within a test program.
set(POSEIDON_BATCH 8 CACHE STRING "how many sources are compiled as one with POSEIDON_UNITY; more: a shorter first build")
set(CMAKE_UNITY_BUILD_BATCH_SIZE ${POSEIDON_BATCH})
function(poseidon_unite target)
  set_property(TARGET ${target} PROPERTY UNITY_BUILD ${POSEIDON_UNITY})
  if(POSEIDON_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Every source is included there, so g++ takes what is unnamed in it for a header's.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# poseidon_control(TARGET): code that decides what the kernels, the transport and the readers of samples do. Almost no
# time of a run is spent in it, so it is compiled quickly rather than optimized.
function(poseidon_control target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)
endfunction()

# poseidon_hide(TARGET): its code may be part of a shared library, which does not export it.
function(poseidon_hide name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# poseidon_library(NAME LINKS...): every source of this folder and of its rooms, but for those of
# devices.
function(poseidon_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/${name}/(cpu|replay|cuda)/")
  add_library(poseidon_${name} STATIC ${sources})
  poseidon_unite(poseidon_${name})
  target_link_libraries(poseidon_${name} PUBLIC poseidon_settings ${ARGN})
  if(POSEIDON_FUZZ)  # libFuzzer counts the branches of these libraries. In kernels, counters would cost time.
    target_compile_options(poseidon_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# poseidon_device_library(NAME DEVICE LINKS...): the sources of a device's folder, NAME/DEVICE. Who
# does not choose a device links none.
function(poseidon_device_library name device)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${device}/*.cpp)
  add_library(poseidon_${name}_${device} STATIC ${sources})
  target_link_libraries(poseidon_${name}_${device} PUBLIC poseidon_${name} ${ARGN})
endfunction()
