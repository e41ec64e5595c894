// Assignment of shards to workers of different speed, compared with all possible assignments.

#include "comm/plan/shard_assignment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "comm/plan/assignment.h"
#include "core/philox.h"
#include "tests/comm/small_plan.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

size_t parts_of(const std::vector<int64_t>& counts) {
  const Assignment assignment = assignment_by_counts(counts, 1, false);
  size_t parts = 0;
  for (uint32_t rank = 0; rank < counts.size(); ++rank) parts += assignment.parts_of(rank).size();
  return parts;
}

/// Calls `look` for each way to assign `shards` so that each device of `workers` gets at least one.
void all_dealings(std::span<const WorkerStepTime> workers, int64_t shards,
                  std::vector<int64_t>& counts,
                  const std::function<void(const std::vector<int64_t>&)>& look) {
  if (counts.size() + 1 == workers.size()) {
    if (shards < workers[counts.size()].devices) return;
    counts.push_back(shards);
    look(counts);
    counts.pop_back();
    return;
  }
  for (int64_t count = workers[counts.size()].devices; count < shards; ++count) {
    counts.push_back(count);
    all_dealings(workers, shards - count, counts, look);
    counts.pop_back();
  }
}

struct Best {
  double shortest = std::numeric_limits<double>::infinity();
  size_t parts = SIZE_MAX;  ///< the least number of parts among almost shortest steps
  double step =
      std::numeric_limits<double>::infinity();  ///< the shortest step with this number of parts
};

Best best_of(const std::vector<WorkerStepTime>& workers, int64_t shards) {
  Best best;
  std::vector<int64_t> counts;
  const auto each = [&](const auto& look) { all_dealings(workers, shards, counts, look); };
  each([&](const auto& assigned) {
    best.shortest = std::min(best.shortest, slowest_step(workers, assigned));
  });
  each([&](const auto& assigned) {
    const double step = slowest_step(workers, assigned);
    const size_t parts = parts_of(assigned);
    if (step > best.shortest * kAlmostShortest || parts > best.parts) return;
    best.step = parts < best.parts ? step : std::min(best.step, step);
    best.parts = parts;
  });
  return best;
}

void check_dealing(const std::vector<WorkerStepTime>& workers, int64_t shards) {
  CAPTURE(shards);
  const std::vector<int64_t> assigned = assign_shards(workers, shards);
  CAPTURE(assigned);
  REQUIRE(assigned.size() == workers.size());
  int64_t all = 0;
  for (size_t worker = 0; worker < assigned.size(); ++worker) {
    CHECK(assigned[worker] >= workers[worker].devices);
    all += assigned[worker];
  }
  CHECK(all == shards);
  const Best best = best_of(workers, shards);
  CHECK(parts_of(assigned) == best.parts);
  CHECK(slowest_step(workers, assigned) == best.step);
}

std::vector<int64_t> counts_of(const std::vector<WorkerStepTime>& workers, int64_t shards) {
  return assign_shards(workers, shards);
}

}  // namespace

TEST_CASE("shards by speed: assignments equal values computed by hand") {
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 1}}, 8) == std::vector<int64_t>{4, 4});
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 3}}, 8) == std::vector<int64_t>{6, 2});
  CHECK(counts_of({{.each_shard = 3}, {.each_shard = 1}}, 8) == std::vector<int64_t>{2, 6});
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 40}}, 8) == std::vector<int64_t>{7, 1});
  // The time per step counts too, not only the time per shard.
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 1, .each_step = 4}}, 8) ==
        std::vector<int64_t>{6, 2});
  CHECK(counts_of({{.each_shard = 5}}, 3) == std::vector<int64_t>{3});
  // The devices of a worker share its shards. Each device gets at least one.
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 1, .devices = 3}}, 8) ==
        std::vector<int64_t>{2, 6});
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 40, .devices = 2}}, 8) ==
        std::vector<int64_t>{6, 2});
  // Times of zero are ignored.
  CHECK(counts_of({{.each_shard = 0}, {.each_shard = 0}}, 8) == std::vector<int64_t>{4, 4});
}

TEST_CASE("shards by speed: noise in the times does not split the tree of additions") {
  // Without the tolerance, the shortest step would have 33 and 31 shards, in seven parts.
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 1.05}}, 64) == std::vector<int64_t>{32, 32});
  CHECK(counts_of({{.each_shard = 1}, {.each_shard = 1.2}}, 64) != std::vector<int64_t>{32, 32});
}

TEST_CASE("shards by speed: the result is as good as the best of all assignments") {
  RandomStream random(9, RandomPurpose::kGeneration, 0, 0);
  for (size_t count = 1; count <= 4; ++count)
    for (int64_t shards = static_cast<int64_t>(count); shards <= 14; ++shards)
      for (int round = 0; round < 6; ++round) {
        std::vector<WorkerStepTime> workers;
        int64_t left =
            shards -
            static_cast<int64_t>(count);  // shards left for devices beyond the first of each worker
        for (size_t i = 0; i < count; ++i) {
          const int64_t devices = 1 + (round % 2 == 0 ? 0 : std::min<int64_t>(left, i % 3));
          left -= devices - 1;
          workers.push_back({.each_shard = round == 0 ? 1 : random.next_uniform(0.5F, 8),
                             .each_step = round < 3 ? 0 : random.next_uniform(0, 5),
                             .devices = devices});
        }
        check_dealing(workers, shards);
      }
}

TEST_CASE("shards by speed: with many workers and shards, the step time is near the ideal") {
  std::vector<WorkerStepTime> workers(64);
  for (size_t i = 0; i < workers.size(); ++i) workers[i].each_shard = 1 + double(i % 7);
  for (const int64_t shards : {64, 1000, 4096, 4097, 100000}) {
    const std::vector<int64_t> assigned = assign_shards(workers, shards);
    double speed = 0;
    for (const WorkerStepTime& worker : workers) speed += 1 / worker.each_shard;
    // No worker exceeds the ideal time by more than one of its shards, and the tolerance that saves
    // parts.
    const double ideal = static_cast<double>(shards) / speed;
    CHECK(slowest_step(workers, assigned) <= (ideal + 7) * kAlmostShortest);
  }
}

TEST_CASE("a plan has the requested assignment, else it keeps that of the followed plan") {
  PlanRequest request = on_nodes(small_network(), 2);
  request.logical_shards = 8;
  const Plan even = make_plan(request);
  CHECK(even.assignment.ranges() == std::vector<Part>{{0, 4}, {4, 4}});
  PlanRequest assigned = request;
  assigned.assignment = assignment_by_counts(std::vector<int64_t>{6, 2}, 2, false);
  const Plan uneven = make_plan(assigned);
  CHECK(uneven.assignment == *assigned.assignment);
  // Worker 0 sends two partial sums of each chunk: shards 0 to 3, and shards 4 and 5.
  CHECK(uneven.bytes_per_node > even.bytes_per_node);
  CHECK(keeps_assignment(request, uneven));
  CHECK(follow_plan(request, uneven).assignment == uneven.assignment);
  CHECK_FALSE(keeps_assignment(assigned, even));
  CHECK(follow_plan(assigned, even).assignment == uneven.assignment);
}

TEST_CASE("follow_plan() drops an assignment with fewer shards than devices for a worker") {
  PlanRequest request = on_nodes(small_network(), 2);
  request.logical_shards = 8;
  PlanRequest assigned = request;
  assigned.assignment = assignment_by_counts(std::vector<int64_t>{7, 1}, 2, false);
  const Plan uneven = make_plan(assigned);
  CHECK(follow_plan(request, uneven).assignment == uneven.assignment);
  request.devices = 2;
  CHECK_FALSE(keeps_assignment(request, uneven));
  CHECK(follow_plan(request, uneven).assignment.ranges() == std::vector<Part>{{0, 4}, {4, 4}});
}
