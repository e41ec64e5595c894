#pragma once

#include <cstddef>
#include <vector>

namespace poseidon::net {

/// A piece of memory that is in use during an interval of moments. A moment is a position in the
/// order of execution (CallSchedule in net/program.h). A main program of n calls runs its forward
/// passes at moments 0 to n - 1. Its backward passes follow in reverse order, at moments n to 2n -
/// 1. Moment 2n is the end of the step. The moments of a test program follow.
struct Interval {
  size_t bytes = 0;
  int first = 0, last = 0;  ///< both inclusive
};

/// The offset of each piece in an arena, and the total size, in bytes.
struct MemoryPlan {
  std::vector<size_t> offsets;
  size_t total = 0;
};

/// Assigns offsets so that pieces in use at the same time do not overlap. Places the pieces in
/// order of decreasing size, each at the lowest offset that is free during its whole interval.
/// Offsets are multiples of 64 bytes.
MemoryPlan plan_memory(const std::vector<Interval>& intervals);

}  // namespace poseidon::net
