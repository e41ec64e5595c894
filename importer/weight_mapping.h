#pragma once

#include <span>
#include <vector>

#include "importer/caffe_model.h"
#include "importer/network_mapping.h"
#include "net/network.h"
#include "trainer/step/named_tensor.h"

namespace poseidon::importer {

/// Tensors that a network takes as its weights, and how many of them, from the first, are
/// parameters.
struct ImportedWeights {
  std::vector<trainer::NamedTensor> tensors;
  size_t parameters = 0;
};

struct WeightOptions {
  std::string file;         ///< of the weights, for messages
  bool bgr_to_rgb = false;  ///< what reads the images reads their channels in the other order
};

/// Gives each tensor of `network` its values, by the names of Caffe's layers. Says which layers
/// have none, and which are not used. Throws ConfigError where a tensor has another shape.
ImportedWeights map_weights(const net::Network& network, const ImportedNetwork& imported,
                            std::vector<CaffeWeights> weights, const WeightOptions& options,
                            Log& log);

}  // namespace poseidon::importer
