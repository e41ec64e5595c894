#pragma once

#include <filesystem>
#include <string>

#include "core/log.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

struct TorchvisionExport {
  std::string arch;  ///< torchvision's name of the network; "": derived from Poseidon's name
  std::filesystem::path output;
};

/// Summary of the written file.
struct TorchvisionReport {
  std::string arch;
  size_t tensors = 0;
};

/// Writes the state dict of torchvision's network as safetensors, with torchvision's names, shapes
/// and order. The num_batches_tracked of a batch norm is the imported count. Without an imported
/// count, it is the number of steps, or 0 if the weights are not from a checkpoint. Warns if a
/// batch norm has another epsilon than torchvision's, because a state dict does not contain the
/// epsilon. Throws ConfigError if torchvision does not have this network, or if the imported counts
/// are invalid.
TorchvisionReport export_torchvision(const TrainedWeights& trained,
                                     const TorchvisionExport& options, Log& log);

}  // namespace poseidon::exporter
