#pragma once

#include <algorithm>
#include <fstream>

#include "core/cores.h"

namespace poseidon::test {

/// Factor for upper limits of durations. It is 1 up to the load of .ci/run, three threads for each
/// core. Above this load, it grows in proportion to the number of threads that run or are ready to
/// run: the average of the last minute or the present number, whichever is larger.
inline double slowdown() {
  double last_minute = 0, last_5 = 0, last_15 = 0, now = 0;
  std::ifstream("/proc/loadavg") >> last_minute >> last_5 >> last_15 >> now;
  return std::max(1.0, std::max(last_minute, now) / (3 * available_cores()));
}

}  // namespace poseidon::test
