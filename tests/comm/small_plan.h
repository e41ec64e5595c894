#pragma once

#include <string>
#include <vector>

#include "comm/plan/plan.h"
#include "tests/comm/vgg19.h"

/// A small network to plan for, and what tests look at in a plan.
namespace poseidon::comm {

/// A normalized convolution, a linear layer that is large and one that is small.
inline std::vector<LayerTraffic> small_network() {
  return {
      convolution_traffic("conv", 64, 576),
      {.name = "bn",
       .type = "batch_norm",
       .rows = 64,
       .columns = 1,
       .tensors = {{.name = "scale", .elements = 64, .exact = true},
                   {.name = "shift", .elements = 64, .exact = true},
                   {.name = "running_mean", .elements = 64, .statistic = true, .exact = true},
                   {.name = "running_variance", .elements = 64, .statistic = true, .exact = true}}},
      linear_traffic("fc1", 512, 1024),
      linear_traffic("fc2", 10, 512)};
}

/// "PPSPS": the scheme of each layer.
inline std::string schemes_of(const Plan& plan) {
  std::string schemes;
  for (const LayerPlan& layer : plan.layers)
    schemes += layer.scheme == Scheme::kSfb ? 'S' : layer.scheme == Scheme::kPs ? 'P' : 'L';
  return schemes;
}

}  // namespace poseidon::comm
