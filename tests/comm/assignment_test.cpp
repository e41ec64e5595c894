// Assignments of shards and tensors to nodes: even ones, others, and their form in plan.json.

#include "comm/plan/assignment.h"

#include <doctest/doctest.h>

#include "comm/plan/traffic.h"
#include "core/error.h"
#include "tests/comm/small_plan.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// Seven shards: four on worker 2, one on worker 0, two on worker 1. Two servers are on the first
/// two hosts.
Assignment out_of_order() { return assigned({{4, 1}, {5, 2}, {0, 4}}, 2); }

PlanRequest small_request() {
  PlanRequest request = on_nodes(small_network(), 3);
  request.servers = 2;
  request.logical_shards = 7;
  return request;
}

}  // namespace

TEST_CASE(
    "even assignment: the first workers get the remainder, and servers share workers' hosts") {
  const Assignment even = even_assignment(3, 5, false, 7);
  CHECK(even.ranges() == std::vector<Part>{{0, 3}, {3, 2}, {5, 2}});
  CHECK(even.logical_shards() == 7);
  CHECK(even.hosts() == 3);
  CHECK_FALSE(even.servers_apart());
  CHECK(even.fullest_worker() == 0);
  for (uint32_t server = 0; server < 5; ++server)
    for (uint32_t worker = 0; worker < 3; ++worker)
      CHECK(even.shares_host(worker, server) == (server % 3 == worker));
  const Assignment apart = even_assignment(3, 2, true, 7);
  CHECK(apart.hosts() == 5);
  CHECK(apart.servers_apart());
  CHECK_FALSE(apart.shares_host(1, 1));
  CHECK(apart.servers()[1].member == 1);
  CHECK(apart.workers()[2].member == 2);
}

TEST_CASE("any worker may hold any shards, and the rows follow the shards") {
  const Assignment assignment = out_of_order();
  CHECK(assignment.worker_of(0) == 2);
  CHECK(assignment.worker_of(4) == 0);
  CHECK(assignment.worker_of(6) == 1);
  CHECK(assignment.fullest_worker() == 2);
  CHECK(assignment.parts_of(2) == std::vector<Part>{{0, 4}});
  CHECK(assignment.parts_of(1) == std::vector<Part>{{5, 1}, {6, 1}});
  // 16 samples: two shards of three samples, five of two.
  CHECK(assignment.rows_of({0, 4}, 16) == IndexRange{.first = 0, .count = 10});
  CHECK(assignment.rows_of({4, 1}, 16) == IndexRange{.first = 10, .count = 2});
  CHECK(assignment.rows_of({5, 2}, 16) == IndexRange{.first = 12, .count = 4});
}

TEST_CASE("an assignment with a shard without a worker, or with two workers, is rejected") {
  CHECK_THROWS_AS(assigned({{0, 2}, {1, 2}}, 1), LogicError);
  CHECK_THROWS_AS(assigned({{0, 2}, {3, 1}}, 1), LogicError);
  CHECK_THROWS_AS(assigned({{0, 2}, {2, 0}}, 1), LogicError);
  CHECK_THROWS_AS(assigned({}, 1), LogicError);
}

TEST_CASE("traffic between hosts, by hand: unequal shards, and two workers on one host") {
  // One tensor of 16 elements on the only server. That server is on the host of workers 0 and 1.
  PlanRequest request = on_nodes({convolution_traffic("conv", 4, 3)}, 3);
  request.servers = 1;
  request.logical_shards = 7;
  const Assignment assignment(
      std::vector<AssignedWorker>{{.shards = {4, 1}, .host = 0, .member = 0},
                                  {.shards = {5, 2}, .host = 0, .member = 1},
                                  {.shards = {0, 4}, .host = 1, .member = 2}},
      std::vector<AssignedServer>{{.host = 0, .member = 0}});
  const Plan by_server = with_assignment(make_plan(request), assignment);
  // Worker 2 sends one partial sum, and receives the sum.
  CHECK(expected_traffic(by_server)[0] == LayerTrafficBytes{{64, 64}, {64, 64}});
  CHECK(by_server.bytes_per_node == 128);
  // A sample has factors of 8 floats. Worker 2 sends 10 samples to both others, which send 2 and 4
  // samples to it.
  request.layers = {linear_traffic("fc", 3, 5)};
  request.scheme = SchemeRule::kSfb;
  request.global_batch = 16;
  const Plan by_factors = with_assignment(make_plan(request), assignment);
  CHECK(expected_traffic(by_factors)[0] ==
        LayerTrafficBytes{{6 * 32, 2 * 10 * 32}, {2 * 10 * 32, 6 * 32}});
}

TEST_CASE("an assignment is written with its plan and read back unchanged") {
  const PlanRequest request = small_request();
  const Plan plan = with_assignment(make_plan(request), out_of_order());
  const Json json = to_json(plan);
  CHECK(json["assignment"]["workers"][2] ==
        Json{{"member", 2}, {"host", 2}, {"first_shard", 0}, {"shards", 4}});
  CHECK(json["assignment"]["servers"][1] == Json{{"member", 1}, {"host", 1}});
  const Plan read = read_plan(Json::parse(json.dump()), {"p", ""}, request.layers);
  CHECK(read.assignment == plan.assignment);
  CHECK(to_json(read) == json);
}

TEST_CASE("a plan file without an assignment gets the even assignment") {
  PlanRequest request = small_request();
  for (const bool apart : {false, true}) {
    request.servers_apart = apart;
    const Plan plan = make_plan(request);
    Json json = to_json(plan);
    json.erase("assignment");
    CHECK(read_plan(json, {"p", ""}, request.layers).assignment == plan.assignment);
  }
}

TEST_CASE("follow_plan() keeps the assignment if workers, servers and shards are the same") {
  PlanRequest request = small_request();
  const Plan earlier = with_assignment(make_plan(request), out_of_order());
  CHECK(follow_plan(request, earlier).assignment == earlier.assignment);
  request.servers_apart = true;
  CHECK(follow_plan(request, earlier).assignment == assignment_of(request));
  request.servers_apart = false;
  request.logical_shards = 8;
  CHECK(follow_plan(request, earlier).assignment == assignment_of(request));
}

TEST_CASE("a resumed run uses ranks as ids, so the id of a later joiner is unique") {
  const PlanRequest request = small_request();
  const auto joined_by = [&request](const Plan& plan, std::vector<uint16_t> left, uint16_t id) {
    return next_plan(plan,
                     {.workers = std::move(left),
                      .servers = {0},
                      .joined_workers = {id},
                      .joined_servers = {id}},
                     request.chunk_bytes);
  };
  const Plan earlier = joined_by(make_plan(request), {0, 2}, 3);
  REQUIRE(earlier.assignment.workers()[2].member == 3);
  const Plan resumed = follow_plan(request, earlier);
  for (uint32_t rank = 0; rank < 3; ++rank)
    CHECK(resumed.assignment.workers()[rank].member == rank);
  CHECK(resumed.assignment.servers()[1].member == 1);
  const Plan four = joined_by(resumed, {0, 1, 2}, 3);
  CHECK(read_plan(to_json(four), {"p", ""}, request.layers).assignment == four.assignment);
}

TEST_CASE("an inconsistent assignment is rejected with its JSON path") {
  const PlanRequest request = small_request();
  const Json good = to_json(with_assignment(make_plan(request), out_of_order()));
  const auto refused = [&](const char* pointer, const char* value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return error_of<ConfigError>([&] { read_plan(json, {"p", ""}, request.layers); });
  };
  REQUIRE(refused("/assignment/workers/0/shards", "1") == "");
  CHECK(refused("/workers", "2") == "p: /workers: expected 3, the number in \"assignment\", got 2");
  CHECK(refused("/servers", "7") == "p: /servers: expected 2, the number in \"assignment\", got 7");
  CHECK(refused("/assignment/servers", "[]") ==
        "p: /servers: expected 0, the number in \"assignment\", got 2");
  CHECK(refused("/logical_shards", "8") ==
        "p: /logical_shards: expected 7, the sum over the workers in \"assignment\", got 8");
  CHECK(refused("/assignment/workers/1/shards", "0")
            .starts_with("p: /assignment/workers/1/shards: "
                         "expected "));
  CHECK(refused("/assignment/workers/0/shards", "2") ==
        "p: /assignment/workers/1/first_shard: expected 6, because each logical shard has exactly "
        "one worker, got 5");
  CHECK(refused("/assignment/workers/2/shards", "3") ==
        "p: /assignment/workers/0/first_shard: expected 3, because each logical shard has exactly "
        "one worker, got 4");
  CHECK(refused("/assignment/workers/2/first_shard", "1048576")
            .starts_with("p: /assignment/workers/0/first_shard: expected 0, "));
  CHECK(refused("/assignment/workers/2/first_shard", "4294967296")
            .starts_with("p: /assignment/workers/2/first_shard: expected "));
  CHECK(refused("/assignment/workers/2/member", "0") ==
        "p: /assignment/workers/2/member: expected a unique number, got 0, which is also at /0");
  CHECK(refused("/assignment/servers/1/member", "0")
            .starts_with("p: /assignment/servers/1/member: expected a unique number"));
  CHECK(refused("/assignment/workers/2/host", "3") ==
        "p: /assignment: expected consecutive hosts from 0, but host 2 has no node and host 3 has "
        "one");
  CHECK(refused("/assignment/workers/2/host", "8192").starts_with("p: /assignment/workers/2/host"));
  CHECK(refused("/servers_apart", "true") ==
        "p: /servers_apart: expected false, which the hosts in \"assignment\" imply, got true");
  CHECK(refused("/assignment/worker", "[]").find("did you mean \"workers\"?") != std::string::npos);
  CHECK(refused("/assignment", "[]").starts_with("p: /assignment: expected "));
}
