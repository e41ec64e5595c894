#include "comm/simulation/coordinator.h"

#include <algorithm>
#include <span>

namespace poseidon::comm {

using namespace std::chrono_literals;

std::vector<std::span<std::byte>> ReplicaStore::memory() {
  std::vector<std::span<std::byte>> tensors;
  for (auto& layer : replica)
    for (std::vector<float>& tensor : layer)
      tensors.push_back(std::as_writable_bytes(std::span(tensor)));
  return tensors;
}

SimulatedCoordinator::SimulatedCoordinator(SimulatedWorld& world, int node)
    : world_(world),
      coordinator_({.workers = static_cast<uint16_t>(world.options.plan.workers()),
                    .servers = static_cast<uint16_t>(world.options.plan.servers()),
                    .facts = {{"build", "simulated"}},
                    .timeout = world.options.timeout,
                    .stall_timeout = world.options.stall_timeout,
                    .gather_timeout = 3 * std::max<Time>(10s, world.options.timeout)},
                   world.network.transport(node), *this),
      intake_([this] {
        return std::make_shared<ReplicaStore>(ReplicaStore{world_.model.first_values()});
      }) {
  world.network.transport(node).present_as(
      {.role = Role::kCoordinator, .rank = 0, .view = 1, .job = {std::byte{1}}, .address = ""});
}

void SimulatedCoordinator::noted(NodeId node, const Note& note) {
  if (note.about != "checkpoint") return;
  const auto store = intake_.take(node.rank, note.content.at("number").get<uint32_t>(), note.step);
  world_.result.checkpoints[note.step] = ComputeModel::digest(store->replica);
  fetched_ = true;
  coordinator_.fetched();
}

std::optional<uint16_t> SimulatedCoordinator::fetch_kept_step() {
  const std::optional<uint16_t> keeper = fetched_ ? std::nullopt : world_.options.keeper;
  if (keeper) coordinator_.note(*keeper, {.about = "fetch", .content = Json::object()});
  return keeper;
}

}  // namespace poseidon::comm
