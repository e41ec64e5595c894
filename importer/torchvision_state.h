#pragma once

#include <string>
#include <vector>

#include "importer/torchvision_archs.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// A tensor of torchvision's state dict. Values and their order are the same here and there.
struct StateTensor {
  std::string theirs;  ///< "layer1.0.bn1.weight"
  std::string ours;  ///< "stage1.0.bn1.scale"; "" for num_batches_tracked, which networks have not
  Shape shape;

  bool counts_batches() const { return ours.empty(); }
};

/// The tensors of a network by torchvision's names, in torchvision's order. Throws ConfigError that
/// names every layer with tensors that only one of both has.
std::vector<StateTensor> state_tensors(const TorchvisionArch& arch, const net::Network& network);

/// Holds a file against them: F32 of the same shapes, counts of batches as I64, all of which may be
/// missing, as they are from files of old. Throws ConfigError as expect_tensors does.
void check_state(const TorchvisionArch& arch, const std::vector<StateTensor>& expected,
                 const trainer::SafetensorsFile& file);

}  // namespace poseidon::importer
