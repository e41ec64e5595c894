#pragma once

#include <algorithm>
#include <fstream>

#include "core/cores.h"

namespace poseidon::test {

/// Factor for upper limits of durations: 1 on an idle machine. On a busy one, the number of threads
/// that run or are ready to run, divided by the number of cores: the average of the last minute or
/// the present number, whichever is larger.
inline double slowdown() {
  double last_minute = 0, last_5 = 0, last_15 = 0, now = 0;
  std::ifstream("/proc/loadavg") >> last_minute >> last_5 >> last_15 >> now;
  return std::max({1.0, last_minute / available_cores(), now / available_cores()});
}

}  // namespace poseidon::test
