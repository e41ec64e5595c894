#include "comm/exchange/worker_exchange.h"

#include <algorithm>

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

WorkerExchange::WorkerExchange(const Plan& plan, uint32_t rank, const Options& options,
                               ExchangeMemory& memory, Outlet& outlet, Arrived arrived)
    : context_{.plan = plan,
               .rank = rank,
               .options = options,
               .memory = memory,
               .outlet = outlet,
               .arrived = std::move(arrived),
               .parts = plan.assignment.parts_of(rank),
               .bytes_of_layer = std::vector<LayerBytes>(plan.layers.size())},
      sums_(context_) {}

Destination WorkerExchange::destination(NodeId from, const FrameHeader& header) {
  const bool is_mutated = mutated(Mutation::kStaleFactor) && header.kind == FrameKind::kFactor;
  if (header.view != context_.options.view && !is_mutated) {
    ++context_.traffic.outdated;
    return Destination::dropped();
  }
  if (header.kind != FrameKind::kSum && header.kind != FrameKind::kFactor)
    return Destination::refused("sent a " + name_of(header.kind) +
                                " frame, which workers do not receive");
  if (header.key >= sums_.size())
    return Destination::refused(text("sent a ", name_of(header.kind), " for layer ", header.key,
                                     ", expected a layer below ", sums_.size()));
  return sums_[header.key].destination(from, header);
}

std::string WorkerExchange::received(NodeId from, const FrameHeader& header) {
  context_.traffic.bytes_received += header.length;
  return sums_[header.key].received(from, header);
}

/// Checks first the layers with fewer complete steps than others, then the rest. Within each group,
/// layers are in the order of the forward pass.
std::string WorkerExchange::awaiting(NodeId node) const {
  uint64_t furthest = 0;
  for (uint32_t layer = 0; layer < sums_.size(); ++layer)
    furthest = std::max(furthest, step_of(layer));
  for (const bool behind : {true, false})
    for (uint32_t layer = 0; layer < sums_.size(); ++layer) {
      if ((step_of(layer) < furthest) != behind) continue;
      std::string what = sums_[layer].awaiting(node);
      if (!what.empty()) return what;
    }
  return "";
}

}  // namespace poseidon::comm
