#include "comm/simulation/coordinator.h"

#include <algorithm>
#include <span>

#include "comm/slices.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

SimulatedCoordinator::SimulatedCoordinator(SimulatedWorld& world, int node)
    : world_(world),
      coordinator_({.workers = static_cast<uint16_t>(world.options.plan.workers),
                    .servers = static_cast<uint16_t>(world.options.plan.servers),
                    .facts = {{"build", "simulated"}},
                    .timeout = world.options.timeout,
                    .stall_timeout = world.options.stall_timeout,
                    .gather_timeout = 3 * std::max<Time>(10s, world.options.timeout)},
                   world.network.transport(node), *this) {
  world.network.transport(node).present_as(
      {.role = Role::kCoordinator, .rank = 0, .view = 1, .job = {std::byte{1}}, .address = ""});
}

Placement SimulatedCoordinator::place(uint16_t, const FrameHeader& header) {
  if (replica_.empty()) replica_ = world_.model.first_values();
  if (header.kind != FrameKind::kTensor || header.key >= replica_.size() ||
      header.chunk >= replica_[header.key].size())
    return Placement::refused("sent a tensor that the job has not");
  const auto memory = std::as_writable_bytes(std::span(replica_[header.key][header.chunk]));
  if (!is_slice_of(header, memory.size())) return Placement::refused("sent a torn tensor");
  return Placement::into(memory.subspan(header.offset, header.length));
}

void SimulatedCoordinator::saved(uint16_t, int64_t) {
  world_.result.checkpoint_digest = ComputeModel::digest(replica_);
}

}  // namespace poseidon::comm
