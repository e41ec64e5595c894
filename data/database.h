#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/sample_stream.h"

namespace poseidon::data {

enum class DatabaseType : uint8_t { kLmdb, kLevelDb, kHdf5 };

struct DatabaseOptions {
  std::filesystem::path programs;  ///< folder of the reader programs, such as poseidon-read-lmdb
  bool bgr_to_rgb = false;         ///< reverse the channel order of pixels
  std::vector<std::string> extras = {};  ///< HDF5 datasets read in addition to "data" and "label"
  /// Maximum time without output from the reader program. After this time, the program is killed
  /// and reading throws RunError.
  std::chrono::milliseconds stall_limit{120'000};
};

/// Opens the samples of a Caffe database, in key order, or of an HDF5 file, in row order. A
/// separate process reads the file, so damaged data can crash only that process. Throws ConfigError
/// if `path` does not exist or this build has no reader program for the type. Throws RunError
/// "PATH: ..." if the file cannot be read.
std::unique_ptr<SampleStream> open_database(DatabaseType type, const std::filesystem::path& path,
                                            const DatabaseOptions& options);

}  // namespace poseidon::data
