#pragma once

#include <map>
#include <string>

#include "layers/backend.h"

namespace poseidon::layers::replay {

/// What one layer takes, for the batch that is computed, milliseconds.
struct LayerTime {
  double forward_ms = 0, backward_ms = 0;
  /// Of a layer that gives factors: its gradient from those of the global batch. The rest of its
  /// backward pass is then half of backward_ms: one product of two.
  double rebuild_ms = 0;
};

struct ReplayTimes {
  std::map<std::string, LayerTime> layers;  ///< a layer that is not here takes no time
  double update_ms_per_element = 0;         ///< of an update of a parameter
};

/// Layers that sleep as long as they are said to take, and leave values behind that cost nothing to
/// make and depend on layer, step and first sample alone: gradients of one value throughout, losses
/// of 1. An update changes the first elements of a tensor. Nothing is learned, but all that is
/// sent, summed and compared is as large as in the true job, and equal on all workers.
Backend make_replay_backend(const ReplayTimes& times);

}  // namespace poseidon::layers::replay
