#include "net/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace poseidon::net {

namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Placed {
  size_t begin, end;
  int first, last;
};

/// The lowest offset at which `bytes` bytes are free during the interval `wanted`. `placed` is
/// sorted by `begin`.
size_t lowest_gap(const std::vector<Placed>& placed, const Interval& wanted, size_t bytes) {
  size_t offset = 0;
  for (const Placed& other : placed) {
    if (other.last < wanted.first || wanted.last < other.first) continue;
    if (offset + bytes <= other.begin) return offset;
    offset = std::max(offset, other.end);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Interval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  MemoryPlan plan;
  plan.offsets.resize(intervals.size());
  std::vector<Placed> placed;
  for (size_t i : order) {
    const size_t bytes = aligned(intervals[i].bytes);
    const size_t offset = lowest_gap(placed, intervals[i], bytes);
    plan.offsets[i] = offset;
    plan.total = std::max(plan.total, offset + bytes);
    const Placed piece{offset, offset + bytes, intervals[i].first, intervals[i].last};
    const auto behind =
        std::upper_bound(placed.begin(), placed.end(), piece,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    placed.insert(behind, piece);
  }
  return plan;
}

}  // namespace poseidon::net
