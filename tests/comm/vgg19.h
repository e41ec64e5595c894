#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/plan/plan.h"

/// The layer sizes of VGG19, to compare the estimator with the formulas of the papers.
namespace poseidon::comm {

inline LayerTraffic convolution_traffic(const std::string& name, int64_t outputs, int64_t inputs) {
  return {.name = name,
          .type = "convolution",
          .rows = outputs,
          .columns = inputs,
          .tensors = {{.name = "weight", .elements = outputs * inputs},
                      {.name = "bias", .elements = outputs, .exact = true}}};
}

inline LayerTraffic linear_traffic(const std::string& name, int64_t outputs, int64_t inputs) {
  LayerTraffic traffic = convolution_traffic(name, outputs, inputs);
  traffic.type = "linear";
  traffic.linear = true;
  traffic.factors = {.deltas = outputs, .activations = inputs, .multiply_adds = outputs * inputs};
  return traffic;
}

inline std::vector<LayerTraffic> vgg19(int64_t classes) {
  std::vector<LayerTraffic> layers;
  int64_t channels = 3;
  for (const auto& [outputs, repeat] :
       std::vector<std::pair<int64_t, int>>{{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}})
    for (int i = 0; i < repeat; ++i) {
      layers.push_back(
          convolution_traffic("conv" + std::to_string(layers.size()), outputs, channels * 9));
      channels = outputs;
    }
  layers.push_back(linear_traffic("fc6", 4096, 25088));
  layers.push_back(linear_traffic("fc7", 4096, 4096));
  layers.push_back(linear_traffic("fc8", classes, 4096));
  return layers;
}

/// A plan request for `nodes` nodes. Each is a worker with `batch_per_worker` samples and also a
/// server.
inline PlanRequest on_nodes(std::vector<LayerTraffic> layers, int64_t nodes,
                            int64_t batch_per_worker = 32) {
  PlanRequest request;
  request.layers = std::move(layers);
  request.workers = request.servers = nodes;
  request.global_batch = nodes * batch_per_worker;
  return request;
}

}  // namespace poseidon::comm
