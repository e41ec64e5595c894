#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "importer/import.h"

namespace poseidon::importer {

/// Options of `poseidon-import torchvision`.
struct TorchvisionImport {
  std::string arch;
  std::filesystem::path weights;  ///< state dict in safetensors format
  std::filesystem::path output;   ///< folder, new or empty
  int64_t classes = 1000;         ///< number of classes in the state dict
  bool force = false;             ///< overwrite an earlier import in `output`
};

/// Metadata key in weights.safetensors. Its value lists the num_batches_tracked of all batch norms,
/// for an export to a state dict.
inline constexpr const char* kCountsKey = "num_batches_tracked";

/// Imports a state dict: checks the file, then writes network.json, job.json and
/// weights.safetensors. Removes prefixes that PyTorch's wrappers add to all tensor names, and logs
/// these prefixes to `log`. Throws ConfigError if `arch` is unknown, or if the file cannot be
/// opened or does not have the expected tensors. Without `force`, throws ConfigError if `output` is
/// not empty. Throws RunError if a tensor cannot be read or a file cannot be written.
ImportReport import_torchvision(const TorchvisionImport& options, Log& log);

}  // namespace poseidon::importer
