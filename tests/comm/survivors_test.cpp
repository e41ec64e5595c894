// The plan with which the remaining members of a job continue after node failures.

#include <doctest/doctest.h>

#include <vector>

#include "comm/plan/plan.h"
#include "tests/comm/small_plan.h"

using namespace poseidon::comm;

TEST_CASE("survivors keep hosts and ids, and get shards and chunks evenly") {
  PlanRequest request;
  request.workers = 4;
  request.servers = 4;
  request.logical_shards = 8;
  request.global_batch = 8;
  request.layers = small_network();
  const Plan plan = make_plan(request);
  const Plan next = next_plan(
      plan, {.workers = {0, 2, 3}, .servers = {1, 3}, .joined_workers = {}, .joined_servers = {}},
      2 << 20);
  CHECK(next.assignment.ranges() == std::vector<Part>{{0, 3}, {3, 3}, {6, 2}});
  CHECK(next.assignment.workers()[1].member == 2);
  CHECK(next.assignment.servers()[1].member == 3);
  CHECK(next.assignment.hosts() == 4);
  CHECK(next.assignment.shares_host(2, 1));        // the former worker 3 and server 3
  CHECK_FALSE(next.assignment.shares_host(0, 0));  // the former worker 0 and server 1
  CHECK(schemes_of(next) == schemes_of(plan));
  for (const Chunk& chunk : next.chunks) CHECK(chunk.server < 2);
  const Plan alone = next_plan(
      next, {.workers = {1}, .servers = {0}, .joined_workers = {}, .joined_servers = {}}, 2 << 20);
  CHECK(alone.chunks.empty());  // one worker alone needs no sums from a server

  SUBCASE("joiners get the next ranks, and a joined server shares the host of a joined worker") {
    const Plan more = next_plan(next,
                                {.workers = {0, 1, 2},
                                 .servers = {0, 1},
                                 .joined_workers = {4, 6},
                                 .joined_servers = {4, 5, 6}},
                                2 << 20);
    CHECK(more.assignment.ranges() == std::vector<Part>{{0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 1}});
    CHECK(more.assignment.workers()[1].member == 2);
    CHECK(more.assignment.workers()[4].member == 6);
    CHECK(more.assignment.servers()[4].member == 6);
    CHECK(more.assignment.hosts() ==
          7);  // the four earlier ones, two of new workers, one of a new server alone
    CHECK(more.assignment.shares_host(3, 2));
    CHECK(more.assignment.shares_host(4, 3));
    CHECK(schemes_of(more) == schemes_of(plan));
  }

  SUBCASE("a plan of one worker has chunks again after a second worker joins") {
    const Plan two = next_plan(
        alone, {.workers = {0}, .servers = {0}, .joined_workers = {4}, .joined_servers = {}},
        2 << 20);
    CHECK_FALSE(two.chunks.empty());
    CHECK(schemes_of(two) == schemes_of(plan));
  }
}
