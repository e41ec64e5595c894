# The packages that Poseidon uses. README.md in this folder states the purpose of each, and the folders that may include
# it.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(DNNL 2.6 REQUIRED)
find_path(STB_INCLUDE_DIR stb/stb_image.h REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)

# Optional packages: readers/CMakeLists.txt makes a program for each that is found.
find_path(LMDB_INCLUDE_DIR lmdb.h)
find_library(LMDB_LIBRARY lmdb)
find_path(LEVELDB_INCLUDE_DIR leveldb/db.h)
find_library(LEVELDB_LIBRARY leveldb)
find_path(HDF5_SERIAL_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(HDF5_SERIAL_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
