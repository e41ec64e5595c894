// Replica divergence: which worker the job names, and when it cannot decide.

#include <doctest/doctest.h>

#include "comm/membership/divergence.h"
#include "comm/simulation/job.h"
#include "tests/simulation/seeds/reconfiguration.h"

using namespace poseidon::comm;

namespace {

std::string name(size_t index) { return "t" + std::to_string(index); }

SimulatedJobOptions job_that_drifts(int64_t workers, uint16_t who) {
  PlanRequest request;
  request.workers = workers;
  request.servers = 2;
  request.global_batch = workers;
  request.layers = {
      {.name = "conv", .type = "convolution", .tensors = {{"conv.weight", 100, false}}}};
  SimulatedJobOptions options{.plan = make_plan(request), .network = {}};
  options.diverges = {who, 5};
  return options;
}

}  // namespace

TEST_CASE("a worker that differs from a majority has diverged, whatever its rank") {
  CHECK_FALSE(find_divergence({{0, {1, 2}}, {1, {1, 2}}}, 4, name).has_value());
  const auto first = find_divergence({{0, {1, 3}}, {1, {1, 2}}, {2, {1, 2}}}, 4, name);
  REQUIRE(first.has_value());
  CHECK(first->who == std::vector<uint16_t>{0});
  CHECK(first->why == "\"t1\" differs from that of 2 other workers after 4 steps");
  const auto second = find_divergence({{0, {1}}, {1, {1}}, {2, {1}}, {3, {2}}, {4, {3}}}, 4, name);
  REQUIRE(second.has_value());
  CHECK(second->who == std::vector<uint16_t>{3, 4});
  CHECK(find_divergence({{0, {1, 2}}, {1, {1, 2}}, {2, {1}}}, 4, name)
            ->why.starts_with("the number of tensors differs"));
}

TEST_CASE("without a majority, no single worker is named as diverged") {
  const auto two = find_divergence({{0, {1, 2}}, {1, {4, 2}}}, 4, name);
  REQUIRE(two.has_value());
  CHECK(two->who.empty());
  CHECK(two->why == "\"t0\" of worker 0 differs from that of worker 1 after 4 steps");
  const auto four = find_divergence({{0, {1}}, {1, {2}}, {2, {2}}, {3, {1}}}, 4, name);
  CHECK(four->who.empty());
}

TEST_CASE("joiners' copies are compared with the members' values and have no vote") {
  CHECK_FALSE(find_false_copies({}, {1, 2}, 4, name).has_value());
  CHECK_FALSE(find_false_copies({{1, {1, 2}}}, {1, 2}, 4, name).has_value());
  const auto two = find_false_copies({{1, {1, 3}}, {2, {1, 2}}, {3, {1, 3}}}, {1, 2}, 4, name);
  REQUIRE(two.has_value());
  CHECK(two->who == std::vector<uint16_t>{1, 3});
  CHECK(two->why == "\"t1\" of the joiner differs from that of the members after 4 steps");
}

TEST_CASE("a job reports worker 0 if worker 0 diverges") {
  const SimulatedJobResult result = run_job(job_that_drifts(3, 0));
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.message() ==
        "worker 0 (w0) diverged from the other workers in step 8: \"all values\" differs from that "
        "of 2 other workers after 8 steps");
}

TEST_CASE("a job of two workers that diverge reports both") {
  const SimulatedJobResult result = run_job(job_that_drifts(2, 1));
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.message() ==
        "the workers diverged in step 8: \"all values\" of worker 0 differs from that of "
        "worker 1 after 8 steps");
  CHECK(result.ended);
}

namespace {

/// The replica of worker 1 diverges after the checkpoint of step 10.
SimulatedJobOptions job_that_goes_back(int64_t workers) {
  SimulatedJobOptions options = reconfiguration_job(workers, 2, workers + 2, SchemeRule::kPs);
  options.steps = 30;
  options.agree_every = 10;
  options.digest_every = 1;
  options.diverges = {1, 12};
  return options;
}

}  // namespace

TEST_CASE("a job ends after repeated divergences that return it to the same checkpoint") {
  SimulatedJobOptions options = job_that_goes_back(6);
  options.all_diverge = true;
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  REQUIRE(result.outcome.has_value());
  CHECK_FALSE(result.outcome->finished);
  CHECK(result.reconfigurations.size() == 3);
  CHECK(result.began_after == std::vector<int64_t>{10, 10, 10});
  const std::string why = result.outcome->failure.message();
  CAPTURE(why);
  CHECK(why.starts_with("worker 1 (w4) diverged from the other workers in step "));
  CHECK(
      why.ends_with("; 3 earlier divergences returned the job to step 10, and it has reached no "
                    "later checkpoint"));
}

TEST_CASE("the host of a diverged worker cannot join again, and another host can") {
  SimulatedJobOptions options = job_that_goes_back(3);
  options.max_workers = 3;
  const uint64_t event = run_job(options).events / 4;
  for (const bool same_host : {true, false}) {
    options.arrivals = {{.at_event = 3 * event}};
    if (same_host) options.arrivals[0].host_of = NodeId{Role::kWorker, 1};
    const SimulatedJobResult result = run_job(options);
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.joined == (same_host ? 0 : 1));
  }
}

TEST_CASE("after a divergence, the job skips damaged checkpoints") {
  SimulatedJobOptions options = job_that_goes_back(3);
  options.diverges = {1, 22};
  for (const std::vector<int64_t>& damaged : {std::vector<int64_t>{20}, {20, 10}}) {
    options.damaged = damaged;
    const SimulatedJobResult result = run_job(options);
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.began_after == std::vector<int64_t>{damaged.size() == 1 ? 10 : 0});
  }
}
