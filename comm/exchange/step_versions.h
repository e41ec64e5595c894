#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

/// Which layers have taken which step's update. A layer's update is written beside the old values,
/// so that a step that cannot be completed leaves the last complete one whole: to_revert() says
/// which layers must go back to their old values for that.
class StepVersions {
 public:
  StepVersions(size_t layers, uint64_t steps_done) : updates_(layers, steps_done) {}

  /// The next step's update of `layer` is in place.
  void updated(size_t layer) {
    check(updates_[layer] == complete_steps(), "a layer is at most one step ahead");
    ++updates_[layer];
  }
  /// Steps whose updates `layer` has.
  uint64_t steps_of(size_t layer) const { return updates_[layer]; }
  /// Steps whose updates all layers have.
  uint64_t complete_steps() const {
    uint64_t least = UINT64_MAX;
    for (uint64_t updates : updates_) least = updates < least ? updates : least;
    return least;
  }
  /// The layers that are one step ahead of the last complete one.
  std::vector<size_t> to_revert() const {
    std::vector<size_t> layers;
    if (mutated(Mutation::kTornStep)) return layers;
    for (size_t layer = 0; layer < updates_.size(); ++layer)
      if (updates_[layer] > complete_steps()) layers.push_back(layer);
    return layers;
  }

 private:
  std::vector<uint64_t> updates_;  ///< by layer
};

}  // namespace poseidon::comm
