#include "net/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/philox.h"

namespace poseidon::net {
namespace {

TEST_CASE("memory plan: live buffers never overlap, and the total stays near the peak") {
  RandomStream random(7, RandomPurpose::kGeneration, 0, 0);
  for (int round = 0; round < 50; ++round) {
    std::vector<Interval> intervals;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random.next_below(40));
      intervals.push_back(
          {random.next_below(5000), first, first + static_cast<int>(random.next_below(12))});
    }
    const MemoryPlan plan = plan_memory(intervals);
    size_t busiest = 0;
    for (int moment = 0; moment < 60; ++moment) {
      size_t alive = 0;
      for (const Interval& piece : intervals)
        if (piece.first <= moment && moment <= piece.last) alive += piece.bytes;
      busiest = std::max(busiest, alive);
    }
    CHECK(plan.total >= busiest);
    CHECK(plan.total <= busiest * 3 / 2 + 60 * 64);
    for (size_t a = 0; a < intervals.size(); ++a) {
      CHECK(plan.offsets[a] % 64 == 0);
      CHECK(plan.offsets[a] + intervals[a].bytes <= plan.total);
      for (size_t b = a + 1; b < intervals.size(); ++b) {
        const bool together =
            intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
        const bool apart = plan.offsets[a] + intervals[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + intervals[b].bytes <= plan.offsets[a];
        CHECK((!together || apart || intervals[a].bytes == 0 || intervals[b].bytes == 0));
      }
    }
  }
}

}  // namespace
}  // namespace poseidon::net
