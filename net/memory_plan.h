#pragma once

#include <cstddef>
#include <vector>

namespace poseidon::net {

/// A piece of memory that is wanted from one moment to another. Moments are numbers of calls: the
/// forward calls 0 to n - 1, then the backward calls n to 2n - 1.
struct Interval {
  size_t bytes = 0;
  int first = 0, last = 0;  ///< both inclusive
};

/// Where each piece lies in one arena.
struct MemoryPlan {
  std::vector<size_t> offsets;
  size_t total = 0;
};

/// Lays pieces out so that those that live at the same time do not overlap: the largest first, each
/// at the lowest place that is free for its whole life. Offsets are multiples of 64.
MemoryPlan plan_memory(const std::vector<Interval>& intervals);

}  // namespace poseidon::net
