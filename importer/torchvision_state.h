#pragma once

#include <string>
#include <vector>

#include "importer/torchvision_archs.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// A tensor of torchvision's state dict. Poseidon stores its values in the same order. Only
/// num_batches_tracked is not in Poseidon.
struct StateTensor {
  std::string torchvision_name;  ///< "layer1.0.bn1.weight"
  std::string poseidon_name;     ///< "stage1.0.bn1.scale"; "": num_batches_tracked
  Shape shape;

  bool counts_batches() const { return poseidon_name.empty(); }
};

/// Returns the tensors of a network with torchvision's names, in torchvision's order. Throws
/// ConfigError if a layer with tensors exists in only one of the two networks; the message names
/// such layers.
std::vector<StateTensor> state_tensors(const TorchvisionArch& arch, const net::Network& network);

/// Checks that a file has the tensors `expected`: F32, and I64 for num_batches_tracked. Old files
/// may have no num_batches_tracked at all. Throws ConfigError like expect_tensors().
void check_state(const TorchvisionArch& arch, const std::vector<StateTensor>& expected,
                 const trainer::SafetensorsFile& file);

}  // namespace poseidon::importer
