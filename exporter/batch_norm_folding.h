#pragma once

#include <vector>

#include "exporter/trained_weights.h"

/// In testing a batch norm behind a convolution or a linear layer multiplies and adds what does not
/// depend on the input, so it can be part of that layer's weight and bias.
namespace poseidon::exporter {

/// For each node of the network the batch norm that is to become part of it; null for none. The
/// batch norm is the only one that reads the node, whose value is not in `outputs`, and both have
/// parameters of their own.
std::vector<const net::Node*> foldable_norms(const net::Network& network,
                                             const std::vector<int>& outputs);

std::vector<float> folded_weight(const TrainedWeights& trained, const net::Node& node,
                                 const net::Node& norm);
std::vector<float> folded_bias(const TrainedWeights& trained, const net::Node& node,
                               const net::Node& norm);

}  // namespace poseidon::exporter
