#pragma once

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// The properties of the simulated links.
struct NetworkModel {
  double bytes_per_second = 0;                 ///< of each host's link, one direction; 0: no limit
  Time delay = std::chrono::microseconds(50);  ///< fixed delay of every frame
  Time jitter{0};          ///< random extra delay, at most this; frames stay in order
  double duplication = 0;  ///< chance that a bulk frame arrives a second time
  double outdated = 0;  ///< chance that a frame of an older view, with other values, arrives first
};

}  // namespace poseidon::comm
