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

/// The gradients of one worker: sends parts of sums to the servers and factors to the peers as they
/// become final, takes sums and factors in, and says when all of a layer's are there. Each layer's
/// LayerSum does that by the layer's scheme; this finds it. Knows nothing of sockets or time; used
/// by the I/O thread.
class WorkerExchange {
 public:
  using Options = ExchangeOptions;
  /// Told when everything that was summed of `layer` in `step` is in place.
  using Arrived = std::function<void(uint64_t step, uint32_t layer)>;

  /// `plan`, `memory` and `outlet` must outlive it.
  WorkerExchange(const Plan& plan, uint32_t rank, const Options& options, ExchangeMemory& memory,
                 Outlet& outlet, Arrived arrived);
  WorkerExchange(const WorkerExchange&) = delete;  // its sums know where it is
  WorkerExchange& operator=(const WorkerExchange&) = delete;

  /// Takes one part of one tensor that goes by the parameter server, or the only worker's whole
  /// tensor; or one logical shard of a layer that goes by factors, of which both must lie where
  /// ExchangeMemory::factors says. Steps come in order, at most staleness ahead of the sums.
  void contribute(uint32_t layer, const Contribution& contribution) {
    sums_[layer].contribute(contribution);
  }

  /// Sums come from `server`, factors from `worker`.
  Placement place(NodeId from, const FrameHeader& header);
  void received(NodeId from, const FrameHeader& header);

  /// Steps whose sums of `layer` are in place.
  uint64_t step_of(uint32_t layer) const { return sums_[layer].step(); }
  /// The parts that this worker contributes.
  const std::vector<Part>& parts() const { return context_.parts; }
  const TrafficCount& traffic() const { return context_.traffic; }
  const std::vector<LayerBytes>& bytes_of_layers() const { return context_.bytes_of_layer; }
  /// What of all layers is awaited from `node`, of that which is needed first: "the sum of
  /// \"conv1\" of step 12 from server 0"; "" when nothing is.
  std::string awaiting(NodeId node) const;

 private:
  ExchangeContext context_;
  LayerSums sums_;
};

}  // namespace poseidon::comm
