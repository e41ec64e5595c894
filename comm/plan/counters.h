#pragma once

#include <cstdint>

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

}  // namespace poseidon::comm
