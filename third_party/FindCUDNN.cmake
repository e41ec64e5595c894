# cuDNN as CUDNN::cudnn, beside the CUDA toolkit or in the system. Elsewhere: -DCUDNN_ROOT=FOLDER.
find_package(CUDAToolkit QUIET)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib64 lib)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines
    REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]")
  string(REGEX REPLACE "[^0-9;]" "" CUDNN_VERSION "${lines}")
  string(REPLACE ";" "." CUDNN_VERSION "${CUDNN_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN
  REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR CUDAToolkit_FOUND VERSION_VAR CUDNN_VERSION)

if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES
    IMPORTED_LOCATION ${CUDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
  target_link_libraries(CUDNN::cudnn INTERFACE CUDA::cudart)
endif()
