#pragma once

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// What the simulated links do.
struct NetworkModel {
  double bytes_per_second = 0;                 ///< of each host's link, one direction; 0: no limit
  Time delay = std::chrono::microseconds(50);  ///< of every frame
  Time jitter{0};          ///< at most this more, by chance; a connection keeps its order
  double duplication = 0;  ///< chance that a bulk frame comes a second time
  double outdated = 0;     ///< chance that one of an older view, with other numbers, comes first
};

}  // namespace poseidon::comm
