#pragma once

#include <cstdint>

#include "comm/plan/plan.h"

namespace poseidon::comm {

/// Counts of what went through one process's data plane.
struct TrafficCount {
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload
  uint64_t repeated = 0;  ///< frames dropped because their content was there already
  uint64_t outdated = 0;  ///< frames dropped because their view was an older one
};

/// Payload bytes of one layer that left or reached one process's node.
struct LayerBytes {
  uint64_t sent = 0, received = 0;
  bool operator==(const LayerBytes&) const = default;
};

/// Whether a worker and a server share a host, so that what they exchange does not count.
inline bool on_one_node(const Plan& plan, uint32_t worker, uint32_t server) {
  return !plan.servers_apart && server % static_cast<uint32_t>(plan.workers) == worker;
}

}  // namespace poseidon::comm
