# Finds cudnn-frontend, a header-only library, and defines the target CudnnFrontend::headers. It searches the system,
# the folder to which scripts/install-deps --cuda installs the headers, and the Python package nvidia-cudnn-frontend.
# For another place: -DCudnnFrontend_ROOT=FOLDER.
set(places $ENV{HOME}/.local/share/poseidon/cudnn-frontend)
if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_FOUND)
    execute_process(OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET OUTPUT_VARIABLE python_places
      COMMAND ${Python3_EXECUTABLE} -c "import site, sysconfig; \
print(*[sysconfig.get_path('purelib'), site.getusersitepackages()], sep=';')")
    list(APPEND places ${python_places})
  endif()
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${places} PATH_SUFFIXES include)
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR)

set(version_file ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h)
if(EXISTS ${version_file})
  file(STRINGS ${version_file} lines REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION +[0-9]")
  string(REGEX REPLACE "[^0-9;]" "" CudnnFrontend_VERSION "${lines}")
  string(REPLACE ";" "." CudnnFrontend_VERSION "${CudnnFrontend_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend
  REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR VERSION_VAR CudnnFrontend_VERSION)

if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::headers)
  add_library(CudnnFrontend::headers INTERFACE IMPORTED)
  target_include_directories(CudnnFrontend::headers INTERFACE ${CUDNN_FRONTEND_INCLUDE_DIR})
  # Leaves out the headers' copy of nlohmann-json. It stores graphs as files, which Poseidon does not use.
  target_compile_definitions(CudnnFrontend::headers INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
