#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/exchange/exchange_context.h"
#include "comm/exchange/exchange_memory.h"
#include "comm/exchange/layer_sums.h"
#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// The gradient exchange of one worker. It sends partial sums to the servers and factors to the
/// peers as they become final. It receives sums and factors, and reports when all sums of a layer
/// have arrived. It passes each frame to the layer's LayerSum, which works by the layer's scheme.
/// It uses neither sockets nor clocks. All calls are made in the I/O thread.
class WorkerExchange {
 public:
  using Options = ExchangeOptions;
  /// Called when all sums of `layer` in `step` have arrived.
  using Arrived = std::function<void(uint64_t step, uint32_t layer)>;

  /// `plan`, `memory` and `outlet` must outlive this object.
  WorkerExchange(const Plan& plan, uint32_t rank, const Options& options, ExchangeMemory& memory,
                 Outlet& outlet, Arrived arrived);
  WorkerExchange(const WorkerExchange&) = delete;  // sums_ holds the address of context_
  WorkerExchange& operator=(const WorkerExchange&) = delete;

  /// Accepts a contribution of this worker. It consists of one tensor's sum over one part (scheme
  /// `ps`), or over all shards (`local`). With `sfb` it is one logical shard, whose two factors
  /// must already lie in ExchangeMemory::factors. Contributions must be in order of steps, at most
  /// `staleness` steps ahead of the sums.
  void contribute(uint32_t layer, const Contribution& contribution) {
    sums_[layer].contribute(contribution);
  }

  /// Returns the destination for a frame's body: a sum from a server, or factors from a worker.
  Destination destination(NodeId from, const FrameHeader& header);
  /// Uses a body that has arrived. Returns the reason to reject it, or "".
  std::string received(NodeId from, const FrameHeader& header);

  /// The number of steps whose sums of `layer` have arrived.
  uint64_t step_of(uint32_t layer) const { return sums_[layer].step(); }
  /// The parts that this worker contributes.
  const std::vector<Part>& parts() const { return context_.parts; }
  const TrafficCount& traffic() const { return context_.traffic; }
  const std::vector<LayerBytes>& bytes_of_layers() const { return context_.bytes_of_layer; }
  /// Names the item that the most urgent layer awaits from `node`: "the sum of \"conv1\" of step 12
  /// from server 0". Returns "" if no layer awaits an item from `node`.
  std::string awaiting(NodeId node) const;

 private:
  ExchangeContext context_;
  LayerSums sums_;
};

}  // namespace poseidon::comm
