#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/thread_team.h"

/// Loops whose iterations the threads of a team divide among themselves.
namespace poseidon::layers::cpu {

using poseidon::cpu::ThreadTeam;

/// The least number of elements of a task in simple loops. A smaller loop runs in the calling
/// thread only, because it would take longer on two threads.
constexpr int64_t kElementsOfTask = 8192;

/// Calls body(i) for each i from 0 to `count` - 1. The loop is vectorized.
template <class Body>
void for_each_element(ThreadTeam& team, int64_t count, const Body& body) {
  team.run_ranges(count, kElementsOfTask, [&](int64_t first, int64_t end, int) {
    // A copy of the body. Otherwise the compiler assumes that a write may change the body's data,
    // and the loop stays scalar.
    const Body own = body;
#pragma omp simd
    for (int64_t i = first; i < end; ++i) own(i);
  });
}

/// Calls body(item) for each item from 0 to `count` - 1. An item takes as long as `elements`
/// elements of a simple loop.
template <class Body>
void for_each_item(ThreadTeam& team, int64_t count, int64_t elements, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kElementsOfTask / std::max<int64_t>(1, elements));
  team.run_ranges(count, grain, [&](int64_t first, int64_t end, int) {
    for (int64_t item = first; item < end; ++item) body(item);
  });
}

/// Calls body(row, column) for each pair of them. A call takes as long as `elements` elements of a
/// simple loop.
template <class Body>
void for_each_pair(ThreadTeam& team, int64_t rows, int64_t columns, int64_t elements,
                   const Body& body) {
  for_each_item(team, rows * columns, elements, [&](int64_t i) { body(i / columns, i % columns); });
}

}  // namespace poseidon::layers::cpu
