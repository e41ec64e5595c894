#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "net/network.h"

namespace poseidon::net {

/// One thing to execute: a layer, perhaps together with the layers behind it that it takes into
/// itself.
struct Operation {
  int node = 0;             ///< the layer that computes
  int output = 0;           ///< the node whose output it writes: itself, or the last one fused
  std::vector<int> inputs;  ///< nodes whose outputs it reads; as Node::inputs
  std::optional<float> relu;
  bool residual = false;  ///< the last input is added to the output
};

/// The network as operations in order. A relu goes into the layer before it, and the sum of a batch
/// norm and something else into the batch norm, where nobody else reads what is in between, nor is
/// it to be kept, and the device can do it.
std::vector<Operation> fuse(const Network& network, const layers::LayerFactory& factory,
                            std::span<const std::string> keep = {});

}  // namespace poseidon::net
