#pragma once

#include <string>
#include <vector>

#include "importer/torchvision_archs.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// A tensor of torchvision's state dict. Its values have the same order in Poseidon.
struct StateTensor {
  std::string torchvision_name;  ///< "layer1.0.bn1.weight"
  std::string poseidon_name;     ///< "stage1.0.bn1.scale"; "": num_batches_tracked, not in Poseidon
  Shape shape;

  bool counts_batches() const { return poseidon_name.empty(); }
};

/// Returns the tensors of a network with torchvision's names, in torchvision's order. Throws
/// ConfigError that lists every layer with tensors that only one of the two networks has.
std::vector<StateTensor> state_tensors(const TorchvisionArch& arch, const net::Network& network);

/// Checks a file against `expected`: F32 tensors of equal shapes, and batch counts as I64. Old
/// files may lack all batch counts. Throws ConfigError like expect_tensors().
void check_state(const TorchvisionArch& arch, const std::vector<StateTensor>& expected,
                 const trainer::SafetensorsFile& file);

}  // namespace poseidon::importer
