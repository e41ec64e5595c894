# Finds oneDNN and defines the target DNNL::dnnl. oneDNN's own package file requires OpenCL if oneDNN was built with it.
# CPU code does not need OpenCL, and Debian's package does not install it. For another place: -DDNNL_ROOT=FOLDER.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

set(version_file ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
if(EXISTS ${version_file})
  file(STRINGS ${version_file} lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" DNNL_VERSION "${lines}")
  string(REPLACE ";" "." DNNL_VERSION "${DNNL_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL
  REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION)

if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
