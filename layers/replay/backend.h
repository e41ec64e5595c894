#pragma once

#include <map>
#include <string>

#include "layers/backend.h"

namespace poseidon::layers::replay {

/// The times of one layer in milliseconds, for the batch of one logical shard.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
  /// For a layer with factors: the time to compute the weight gradient from the factors of the
  /// global batch. The backward pass then takes only half of backward_ms, because it computes only
  /// the input gradient, one of two products.
  double rebuild_ms = 0;
};

struct ReplayTimes {
  std::map<std::string, LayerTime> layers;  ///< a missing layer takes no time
  double update_ms_per_element = 0;         ///< time to update one element of a parameter
};

/// Creates a device whose layers and updates sleep for the given times instead of computing. The
/// values that they write cost almost no time. Losses are 1. All elements of a gradient have one
/// value, which depends only on the parameter's index in the layer, the step and the batch's first
/// sample. With factors, this value is constant. An update changes only the first elements of a
/// tensor. The network learns nothing. But all tensors that are sent, summed and compared have the
/// size that they have in the real job, and all replicas stay equal.
Backend make_replay_backend(const ReplayTimes& times);

}  // namespace poseidon::layers::replay
