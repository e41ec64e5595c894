#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/exchange/exchange_memory.h"
#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

struct ExchangeOptions {
  uint32_t view = 0;
  bool carries_payload = true;  ///< false: a planning run, frames have lengths only
  uint64_t first_step = 0;
};

/// What the sums of all layers of one worker share: the memory that they lie in, the way out, and
/// the counts of what moves.
struct ExchangeContext {
  const Plan& plan;
  const uint32_t rank;
  const ExchangeOptions options;
  ExchangeMemory& memory;
  Outlet& outlet;
  /// Called when every sum of `layer` in `step` has come.
  const std::function<void(uint64_t step, uint32_t layer)> arrived;
  const std::vector<Part> parts;  ///< that this worker contributes
  TrafficCount traffic = {};
  std::vector<LayerBytes> bytes_of_layer = {};

  /// Sends `bytes` bytes to `to` in slices, which share the payload's owner; `header` says all but
  /// view, offset and length. What the next forward pass needs first is the most urgent, unless
  /// that waits for all sums anyway.
  void send(NodeId to, FrameHeader header, const Payload& whole, uint64_t bytes);
  /// Counts and drops a frame whose content is there already.
  Placement repeated();
  /// Whether a contribution to `step` may come while `awaited` is awaited.
  bool in_flight(uint64_t step, uint64_t awaited) const {
    return step >= awaited && step - awaited <= static_cast<uint64_t>(plan.staleness);
  }
};

}  // namespace poseidon::comm
