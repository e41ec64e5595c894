# Finds the build dependencies of the GPU library, lib/libposeidon_cuda.so (layers/cuda/CMakeLists.txt).
#
# POSEIDON_CUDA=AUTO builds the GPU library if CMake finds nvcc of CUDA 13 or newer and cuDNN 9. ON fails if they are
# missing. OFF does not build it. AUTO does not build it for sanitizers, fuzzing and coverage: these check host code,
# and tests run the kernels on the host. Sets POSEIDON_WITH_CUDA.
set(POSEIDON_CUDA AUTO CACHE STRING "build the GPU library: AUTO (if CUDA and cuDNN are found), ON or OFF")
set_property(CACHE POSEIDON_CUDA PROPERTY STRINGS AUTO ON OFF)
set(POSEIDON_CUDA_ARCHITECTURES "80;90;100" CACHE STRING
  "compute capabilities to compile for; newer GPUs compile the PTX of the last one when they load it")
set(POSEIDON_WITH_CUDA OFF)
if(NOT POSEIDON_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "POSEIDON_CUDA: expected AUTO, ON or OFF, got \"${POSEIDON_CUDA}\"")
endif()
if(POSEIDON_CUDA STREQUAL OFF)
  return()
endif()
find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDACXX PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
set(missing "")
if(CMAKE_CUDA_COMPILER)
  get_filename_component(cuda_bin ${CMAKE_CUDA_COMPILER} DIRECTORY)
  get_filename_component(cuda_root ${cuda_bin} DIRECTORY)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE says ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" says "${says}")
  set(found "CUDA ${CMAKE_MATCH_1} in ${cuda_root}")
  if(NOT CMAKE_MATCH_1 OR CMAKE_MATCH_1 VERSION_LESS 13)
    list(APPEND missing "CUDA 13 or newer")
  endif()
else()
  set(found "no nvcc")
  set(cuda_root "")
  list(APPEND missing "nvcc of CUDA 13 or newer (-DCMAKE_CUDA_COMPILER=FILE)")
endif()

# Tests run the code for the CUDA runtime on the host, over a fake runtime (tests/support/cuda_runtime).
find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_root}/include)
mark_as_advanced(CUDA_RUNTIME_INCLUDE_DIR)
if(POSEIDON_CUDA STREQUAL AUTO AND (POSEIDON_SANITIZE OR POSEIDON_FUZZ OR POSEIDON_COVERAGE))
  return()
endif()

# cuDNN and cuBLASLt belong to the machine's CUDA installation. They are linked as shared libraries, by name.
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${cuda_root}/include)
find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn HINTS ${cuda_root}/lib64)
find_library(CUBLASLT_LIBRARY cublasLt HINTS ${cuda_root}/lib64)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUBLASLT_LIBRARY)
set(cudnn_version 0)
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX REPLACE "[^0-9;]" "" cudnn_version "${lines}")
  string(REPLACE ";" "." cudnn_version "${cudnn_version}")
  string(APPEND found ", cuDNN ${cudnn_version}")
endif()
if(NOT cudnn_version MATCHES "^9\\.")
  list(APPEND missing "cuDNN 9 (-DCUDNN_INCLUDE_DIR=FOLDER -DCUDNN_LIBRARY=FILE)")
endif()
if(NOT CUBLASLT_LIBRARY)
  list(APPEND missing "cuBLASLt (-DCUBLASLT_LIBRARY=FILE)")
endif()

# cudnn-frontend, NVIDIA's C++ interface of cuDNN, must be linked with nvrtc, although Poseidon never calls nvrtc.
find_library(NVRTC_LIBRARY nvrtc HINTS ${cuda_root}/lib64)
mark_as_advanced(NVRTC_LIBRARY)
find_package(CudnnFrontend 1.14 QUIET)
if(NOT CudnnFrontend_FOUND OR NOT NVRTC_LIBRARY)
  list(APPEND missing "cudnn-frontend 1.14 and nvrtc (scripts/install-deps --cuda)")
endif()

if(missing)
  list(JOIN missing ", " missing)
  if(POSEIDON_CUDA STREQUAL ON)
    message(FATAL_ERROR "POSEIDON_CUDA=ON: the GPU library requires ${missing}; found: ${found}. "
      "Configure with -DPOSEIDON_CUDA=OFF to build for the CPU only.")
  endif()
  message(STATUS "GPU library: not built; it requires ${missing}; found: ${found}")
  return()
endif()

# Machine code for each architecture, and PTX for the newest one.
set(CMAKE_CUDA_ARCHITECTURES "")
foreach(architecture ${POSEIDON_CUDA_ARCHITECTURES})
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
endforeach()
list(GET POSEIDON_CUDA_ARCHITECTURES -1 newest)
list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)

if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc supports C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # poseidon_cuda_packages links it
set(POSEIDON_WITH_CUDA ON)

add_library(poseidon_cuda_packages INTERFACE)
target_include_directories(poseidon_cuda_packages SYSTEM INTERFACE
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${CUDNN_INCLUDE_DIR})
find_library(CUDART_LIBRARY cudart_static HINTS ${cuda_root}/lib64 REQUIRED)
mark_as_advanced(CUDART_LIBRARY)
target_link_libraries(poseidon_cuda_packages INTERFACE CudnnFrontend::headers
  ${CUDNN_LIBRARY} ${CUBLASLT_LIBRARY} ${CUDART_LIBRARY} ${NVRTC_LIBRARY} ${CMAKE_DL_LIBS} rt)
message(STATUS "GPU library: ${found}, for compute capabilities ${POSEIDON_CUDA_ARCHITECTURES}")
