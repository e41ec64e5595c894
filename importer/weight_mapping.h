#pragma once

#include <span>
#include <vector>

#include "importer/caffe_model.h"
#include "importer/network_mapping.h"
#include "net/network.h"
#include "trainer/step/named_tensor.h"

namespace poseidon::importer {

/// The tensors of a weights file. The first `parameters` tensors are parameters, the others are
/// statistics.
struct ImportedWeights {
  std::vector<trainer::NamedTensor> tensors;
  size_t parameters = 0;
};

struct WeightOptions {
  std::string file;         ///< name of the weights file, for messages
  bool bgr_to_rgb = false;  ///< reverse the input channels of weights that read the images
};

/// Assigns the values of Caffe's layers to the tensors of `network`, by layer name. Logs layers
/// without weights, and unused weights. Throws ConfigError if the number or shape of a layer's
/// tensors differs between file and network. Throws ConfigError also if a value is not finite, if
/// no layer has weights, or if `bgr_to_rgb` cannot be applied.
ImportedWeights map_weights(const net::Network& network, const ImportedNetwork& imported,
                            std::vector<CaffeWeights> weights, const WeightOptions& options,
                            Log& log);

}  // namespace poseidon::importer
