#include "comm/simulation/world.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

std::string SimulatedWorld::address_of(NodeId node) {
  return text(node.role == Role::kWorker ? "w" : node.role == Role::kServer ? "s" : "c", node.rank);
}

const Plan& SimulatedWorld::plan(uint32_t view) const {
  const auto later = later_plans.find(view);
  return later == later_plans.end() ? options.plan : later->second;
}

bool SimulatedWorld::hangs(NodeId who, Work in) const {
  return std::ranges::find(options.hangs, Hang{who, in}) != options.hangs.end();
}

bool SimulatedWorld::is_arrival(NodeId node) const {
  const Plan& plan = options.plan;
  return node.rank >= (node.role == Role::kWorker ? plan.workers() : plan.servers());
}

Member::Options SimulatedWorld::member_options(NodeId node) const {
  return {.role = node.role,
          .wanted_rank = is_arrival(node) ? -1 : int64_t{node.rank},
          .coordinator = address_of({}),
          .address = address_of(node),
          .facts = {{"build", "simulated"}},
          .join_timeout = 30s,
          .carries_payload = options.carries_payload};
}

}  // namespace poseidon::comm
