#pragma once

#include <cstdint>

#include "comm/wire/integer_blocks.h"

namespace poseidon::comm {

/// Counters of the bulk frames of one process.
struct TrafficCount {
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload
  uint64_t repeated = 0;  ///< frames dropped because their content was already received
  uint64_t outdated = 0;  ///< frames dropped because their view was older
};

/// Payload bytes of one layer that one process has sent to, and received from, other hosts. And the
/// blocks to which a worker has rounded the layer's gradients.
struct LayerBytes {
  uint64_t sent = 0, received = 0;
  BlockCounts rounded = {};
  bool operator==(const LayerBytes&) const = default;
};

}  // namespace poseidon::comm
