#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "importer/import.h"

namespace poseidon::importer {

/// What `poseidon-import torchvision` is asked for.
struct TorchvisionImport {
  std::string arch;
  std::filesystem::path weights;  ///< a state dict, safetensors
  std::filesystem::path output;   ///< a folder, new or empty
  int64_t classes = 1000;
};

/// Keys of the metadata of weights.safetensors, for who writes a state dict again.
inline constexpr const char* kCountsKey = "num_batches_tracked";

/// Writes network.json, job.json and weights.safetensors. Nothing is written before the file is
/// checked. Throws ConfigError that names every tensor that is not as expected, RunError where
/// files cannot be read or written.
ImportReport import_torchvision(const TorchvisionImport& asked);

}  // namespace poseidon::importer
