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
  std::filesystem::path programs;  ///< the folder of poseidon-read-lmdb and the like
  bool bgr_to_rgb = false;
  std::vector<std::string> extras = {};  ///< datasets of HDF5 beyond "data" and "label"
  std::chrono::milliseconds stall_limit{120'000};
};

/// The samples of a database of Caffe's, in the order of its keys, or of the rows of an HDF5 file.
/// A process of its own reads it, so that no damage does more than end that. Throws ConfigError
/// when this build has no program for it, RunError "PATH: ..." for what it cannot read.
std::unique_ptr<SampleStream> open_database(DatabaseType type, const std::filesystem::path& path,
                                            const DatabaseOptions& options);

}  // namespace poseidon::data
