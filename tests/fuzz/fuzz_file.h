#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

/// Files for fuzz targets whose readers take a path.
namespace poseidon::fuzz {

/// A temporary folder. The destructor removes it.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path write(const std::string& name, const uint8_t* data, size_t size) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path;
  }

 private:
  std::filesystem::path path_;
};

inline const Folder& folder() {
  static const Folder kFolder;
  return kFolder;
}

}  // namespace poseidon::fuzz
