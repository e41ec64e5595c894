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
  int node = 0;               ///< the layer that computes
  int output = 0;             ///< the node whose output it writes: `node`, or the last fused layer
  std::vector<int> inputs;    ///< nodes that it reads; negative: external inputs (Node::inputs)
  std::optional<float> relu;  ///< negative slope of the fused relu; none: no fused relu
  bool residual = false;      ///< whether the last input is added to the output, before the relu
};

/// Converts the network to operations in execution order. Fuses a relu into the preceding layer,
/// and a sum of two inputs into the batch norm that produces one of them. A fusion has three
/// conditions: no other layer reads the intermediate output, `keep` does not name the layer that
/// produces this output, and the device supports the fusion.
std::vector<Operation> fuse(const Network& network, const layers::LayerFactory& factory,
                            std::span<const std::string> keep = {});

}  // namespace poseidon::net
