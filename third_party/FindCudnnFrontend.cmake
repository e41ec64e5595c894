# cudnn-frontend's headers (there is nothing but headers) as CudnnFrontend::headers. Looked for in the
# system, where scripts/install-deps --cuda puts them, and in Python's package nvidia-cudnn-frontend.
# Elsewhere: -DCudnnFrontend_ROOT=FOLDER.
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
  # The headers have a copy of nlohmann-json, for graphs as files, which nothing here needs.
  target_compile_definitions(CudnnFrontend::headers INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
