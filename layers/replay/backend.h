#pragma once

#include <map>
#include <string>

#include "layers/backend.h"

namespace poseidon::layers::replay {

/// The times of one layer, for the computed batch, in milliseconds.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
  /// For a layer with factors: the time to rebuild its gradient from the factors of the global
  /// batch. The rest of its backward pass then takes half of backward_ms, because it is one product
  /// of two.
  double rebuild_ms = 0;
};

struct ReplayTimes {
  std::map<std::string, LayerTime> layers;  ///< a missing layer takes no time
  double update_ms_per_element = 0;         ///< of a parameter's update
};

/// Layers that sleep for the given times. The values that they write cost almost no time. Losses
/// are 1. All elements of a gradient have one value, which depends only on the parameter's index in
/// the layer, the step and the batch's first sample. An update changes only the first elements of a
/// tensor. Nothing is learned. But all data that is sent, summed and compared is as large as in the
/// real job, and equal on all workers.
Backend make_replay_backend(const ReplayTimes& times);

}  // namespace poseidon::layers::replay
