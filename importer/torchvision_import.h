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
  int64_t classes = 1000;
  bool force = false;  ///< overwrite an earlier import in `output`
};

/// Key in the metadata of weights.safetensors that an export to a state dict needs.
inline constexpr const char* kCountsKey = "num_batches_tracked";

/// Imports a state dict. Writes network.json, job.json and weights.safetensors after it has checked
/// the file. Removes prefixes that PyTorch's wrappers add to all names, and logs them to `log`.
/// Throws ConfigError that names the first unexpected tensors, RunError if files cannot be read or
/// written.
ImportReport import_torchvision(const TorchvisionImport& options, Log& log);

}  // namespace poseidon::importer
