#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "net/network.h"

namespace poseidon::net {

/// One operation to execute: a layer, possibly with the following layers fused into it.
struct Operation {
  int node = 0;             ///< the layer that computes
  int output = 0;           ///< the node whose output it writes: `node`, or the last one fused
  std::vector<int> inputs;  ///< nodes whose outputs it reads; same form as Node::inputs
  std::optional<float> relu;
  bool residual = false;  ///< whether the last input is added to the output
};

/// Converts the network to operations in execution order. Fuses a relu into the preceding layer,
/// and a sum with a batch norm's output into the batch norm. Fusion requires that no other layer
/// reads the intermediate output, that it is not in `keep`, and that the device supports it.
std::vector<Operation> fuse(const Network& network, const layers::LayerFactory& factory,
                            std::span<const std::string> keep = {});

}  // namespace poseidon::net
