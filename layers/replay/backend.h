#pragma once

#include <map>
#include <string>

#include "layers/backend.h"

namespace poseidon::layers::replay {

/// The times of one layer in milliseconds. A pass processes the batch of one logical shard.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
  /// For a layer that sends factors instead of gradients: the time to compute the weight gradient
  /// from the factors of the global batch. The backward pass then takes only half of backward_ms,
  /// because it computes only the input gradient, one of two products.
  double rebuild_ms = 0;
  double factor_density = 1;  ///< share of the values of its factors that are not zero
};

struct ReplayTimes {
  std::map<std::string, LayerTime> layers;  ///< a missing layer takes no time
  double update_ms_per_element = 0;         ///< time to update one element of a parameter
};

/// Creates a device whose layers and updates sleep for the given times instead of computing. They
/// write simple values, which takes almost no time. All values that a loss reports are 1. All
/// elements of a gradient, or of a contribution to a statistic, have one value. It depends only on
/// the index of the parameter or statistic in the layer, on the step, and on the batch's first
/// sample. The value of a gradient from factors is constant, and their zeros are evenly spread. An
/// update changes only the first elements of a parameter. The network learns nothing. But all
/// tensors that are sent, summed and compared have the size that they have in the real job, and all
/// replicas stay equal.
Backend make_replay_backend(const ReplayTimes& times);

}  // namespace poseidon::layers::replay
