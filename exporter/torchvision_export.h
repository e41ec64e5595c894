#pragma once

#include <filesystem>
#include <string>

#include "core/log.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

struct TorchvisionExport {
  std::string arch;  ///< "": derived from the network's name
  std::filesystem::path output;
};

/// Summary of the written file.
struct TorchvisionReport {
  std::string arch;
  size_t tensors = 0;
};

/// Writes the state dict of torchvision's network as safetensors, with torchvision's names, shapes
/// and order. num_batches_tracked is the imported count, or else the number of steps. Warns if
/// torchvision's batch norms have another epsilon, since a state dict does not contain it. Throws
/// ConfigError if the network is not one of torchvision's.
TorchvisionReport export_torchvision(const TrainedWeights& trained,
                                     const TorchvisionExport& options, Log& log);

}  // namespace poseidon::exporter
