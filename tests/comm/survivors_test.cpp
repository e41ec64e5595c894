// The plan by which some members of a job go on without the others.

#include <doctest/doctest.h>

#include <vector>

#include "comm/plan/plan.h"
#include "tests/comm/small_plan.h"

using namespace poseidon::comm;

TEST_CASE("survivors keep their hosts and ids, and share shards and chunks evenly") {
  PlanRequest request;
  request.workers = 4;
  request.servers = 4;
  request.logical_shards = 8;
  request.global_batch = 8;
  request.layers = small_network();
  const Plan plan = make_plan(request);
  const std::vector<uint16_t> workers{0, 2, 3}, servers{1, 3};
  const Plan next = plan_of_survivors(plan, workers, servers, 2 << 20);
  CHECK(next.assignment.ranges() == std::vector<Part>{{0, 3}, {3, 3}, {6, 2}});
  CHECK(next.assignment.workers()[1].member == 2);
  CHECK(next.assignment.servers()[1].member == 3);
  CHECK(next.assignment.hosts() == 4);
  CHECK(next.assignment.shares_host(2, 1));        // once worker 3 and server 3
  CHECK_FALSE(next.assignment.shares_host(0, 0));  // worker 0 and server 1
  CHECK(schemes_of(next) == schemes_of(plan));
  for (const Chunk& chunk : next.chunks) CHECK(chunk.server < 2);
  const Plan alone =
      plan_of_survivors(next, std::vector<uint16_t>{1}, std::vector<uint16_t>{0}, 2 << 20);
  CHECK(alone.chunks.empty());  // there is nobody to add up with
}
