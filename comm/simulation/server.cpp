#include "comm/simulation/server.h"

namespace poseidon::comm {

SimulatedServer::SimulatedServer(SimulatedWorld& world, NodeId id, int node)
    : world_(world),
      member_(world.member_options(id), world.network.transport(node), *this, *this) {}

void SimulatedServer::planned(const Planned& planned) {
  shard_ = std::make_unique<ServerShard>(
      world_.plan(member_.view()), member_.rank(),
      ServerShard::Options{
          .view = member_.view(),
          .carries_payload = world_.options.carries_payload,
          .first_step = static_cast<uint64_t>(planned.plan.value("first_step", int64_t{0})),
          .seed = world_.options.seed},
      member_.peers());
  member_.ready({}, false);
}

void SimulatedServer::forgotten(NodeId from) {
  if (shard_ != nullptr && from.role == Role::kWorker) shard_->forget(from.rank);
}

std::string SimulatedServer::awaiting(NodeId node) const {
  return shard_ == nullptr || node.role != Role::kWorker ? "" : shard_->awaiting(node.rank);
}

void SimulatedServer::failed(const NodeFailure&, bool alone) {
  if (!alone) return member_.coordinator().stopped(0);
  over_ = true;
  member_.leave();
}

}  // namespace poseidon::comm
