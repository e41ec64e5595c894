#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/exchange/exchange_memory.h"
#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// Options of both ends of the exchange, worker and server.
struct ExchangeOptions {
  uint32_t view = 0;
  bool carries_payload = true;  ///< false in a planning run, whose frames have only lengths
  uint64_t first_step = 0;
  uint64_t seed = 0;  ///< of the job, for stochastic rounding
};

/// The state that the sums of all layers of one worker share: memory, outlet and traffic counters.
struct ExchangeContext {
  const Plan& plan;
  const uint32_t rank;
  const ExchangeOptions options;
  ExchangeMemory& memory;
  Outlet& outlet;
  /// Called when every sum of `layer` in `step` has arrived.
  const std::function<void(uint64_t step, uint32_t layer)> arrived;
  const std::vector<Part> parts;  ///< the parts that this worker contributes
  TrafficCount traffic = {};
  std::vector<LayerBytes> bytes_of_layer = {};

  /// Sends one slice. `header` sets all fields except view. With Overlap::kPriority the layer that
  /// the next forward pass needs first has the highest priority. Otherwise the next forward pass
  /// waits for all sums, and all layers of a step have equal priority.
  void send_slice(NodeId to, FrameHeader header, Payload slice);
  /// Counts and drops a frame whose content was already received.
  Destination repeated();
  /// Whether this worker may contribute to `step` while it awaits the sum of the step `awaited`.
  bool in_flight(uint64_t step, uint64_t awaited) const {
    return step >= awaited && step - awaited <= static_cast<uint64_t>(plan.staleness);
  }
};

}  // namespace poseidon::comm
