#pragma once

#include <vector>

#include "exporter/trained_weights.h"

/// In testing, a batch norm multiplies each channel by a constant and adds a constant. Therefore a
/// batch norm after a convolution or linear layer can be folded into the weight and bias of that
/// layer.
namespace poseidon::exporter {

/// Returns, for each node of the network, the batch norm to fold into the node; null: none.
/// Conditions: the node is a convolution or linear layer, only this batch norm reads it, and it is
/// not in `outputs`. Neither the node nor the batch norm shares parameters with another node.
std::vector<const net::Node*> foldable_norms(const net::Network& network,
                                             const std::vector<int>& outputs);

std::vector<float> folded_weight(const TrainedWeights& trained, const net::Node& node,
                                 const net::Node& norm);
std::vector<float> folded_bias(const TrainedWeights& trained, const net::Node& node,
                               const net::Node& norm);

}  // namespace poseidon::exporter
