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
  bool force = false;  ///< `output` may be an earlier import, which is overwritten
};

/// Keys of the metadata of weights.safetensors, for who writes a state dict again.
inline constexpr const char* kCountsKey = "num_batches_tracked";

/// Writes network.json, job.json and weights.safetensors. Nothing is written before the file is
/// checked. Prefixes that PyTorch's wrappers put before all names are removed, which is said to
/// `log`. Throws ConfigError that names the first tensors that are not as expected, RunError where
/// files cannot be read or written.
ImportReport import_torchvision(const TorchvisionImport& asked, Log& log);

}  // namespace poseidon::importer
