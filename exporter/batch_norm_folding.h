#pragma once

#include <vector>

#include "exporter/trained_weights.h"

/// In testing, a batch norm multiplies and adds values that do not depend on the input. After a
/// convolution or a linear layer, it can therefore be folded into that layer's weight and bias.
namespace poseidon::exporter {

/// For each node of the network, the batch norm to fold into it; null: none. Only this batch norm
/// reads the node, and the node is not in `outputs`. Neither of the two shares its parameters.
std::vector<const net::Node*> foldable_norms(const net::Network& network,
                                             const std::vector<int>& outputs);

std::vector<float> folded_weight(const TrainedWeights& trained, const net::Node& node,
                                 const net::Node& norm);
std::vector<float> folded_bias(const TrainedWeights& trained, const net::Node& node,
                               const net::Node& norm);

}  // namespace poseidon::exporter
