#pragma once

#include <filesystem>
#include <string>

#include "core/log.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

struct TorchvisionExport {
  std::string arch;  ///< "": the one of the network's name
  std::filesystem::path output;
};

/// What was written.
struct TorchvisionReport {
  std::string arch;
  size_t tensors = 0;
};

/// Writes the state dict of torchvision's network, with its names, shapes and order, as
/// safetensors. num_batches_tracked is as it was imported, else the number of steps. Warns where
/// torchvision's batch norms have another epsilon, which no state dict says. Throws ConfigError
/// where the network is not torchvision's.
TorchvisionReport export_torchvision(const TrainedWeights& trained, const TorchvisionExport& asked,
                                     Log& log);

}  // namespace poseidon::exporter
