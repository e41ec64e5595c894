#include "comm/simulation/world.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

std::string SimulatedWorld::address_of(NodeId node) const {
  const auto name = [](NodeId of) {
    return text(of.role == Role::kWorker ? "w" : of.role == Role::kServer ? "s" : "c", of.rank);
  };
  if (node.role == Role::kCoordinator || !is_arrival(node)) return name(node);
  auto rank = static_cast<uint16_t>(node.role == Role::kWorker ? options.plan.workers()
                                                               : options.plan.servers());
  for (const Arrival& arrival : options.arrivals)
    if (arrival.role == node.role && rank++ == node.rank && arrival.host_of)
      return text(name(*arrival.host_of), ":", node.rank);
  return name(node);
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
          .join_timeout = std::max<Time>(30s, options.timeout),
          .carries_payload = options.carries_payload};
}

}  // namespace poseidon::comm
