// Jobs that go on after losses, on the simulated network: whatever is lost, and whenever, the
// values are those of one process alone.

#include <doctest/doctest.h>

#include "comm/simulation/model.h"
#include "tests/comm/seeds/regroup.h"
#include "tests/comm/seeds/scenario.h"

using namespace poseidon::comm;
using State = Coordinator::State;

namespace {

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

/// In the middle of an undisturbed run.
uint64_t middle_of(SimulatedJobOptions options) {
  options.faults.clear();
  return run_job(options).events / 2;
}

/// Crashes each node, or asks it to leave, at every `stride`-th event. Returns how often the job
/// went on.
size_t lose_everywhere(SimulatedJobOptions options, uint64_t stride,
                       Fault::Kind kind = Fault::Kind::kCrash) {
  size_t regrouped = 0;
  const uint64_t events = 2 * middle_of(options);
  for (const NodeId node : nodes_of(options))
    for (uint64_t event = 0; event < events; event += stride) {
      options.faults = {{.kind = kind, .at_event = event, .a = node}};
      const SimulatedJobResult result = run_job(options);
      CAPTURE(description(options));
      CHECK(fault_in_regrouping(options, result) == "");
      regrouped += result.regrouped.size();
    }
  return regrouped;
}

}  // namespace

TEST_CASE("a job that could go on after a loss, and has none, has one view") {
  const SimulatedJobOptions options = regrouping_job(2, 2, 4, SchemeRule::kAuto);
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_regrouping(options, result) == "");
  CHECK(result.outcome->finished);
  CHECK(result.view == 1);
}

TEST_CASE("whoever crashes, the others go on to the values of one alone") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    CHECK(lose_everywhere(regrouping_job(2, 2, 4, scheme), 53) >= 4);
  CHECK(lose_everywhere(regrouping_job(3, 2, 5, SchemeRule::kAuto), 101) >= 4);
}

TEST_CASE("whoever is asked to leave does, and the others go on to the values of one alone") {
  CHECK(lose_everywhere(regrouping_job(3, 2, 5, SchemeRule::kAuto), 53, Fault::Kind::kLeave) >= 8);
}

TEST_CASE("who leaves while others have left already is let go too, and the last one saves") {
  SimulatedJobOptions options = regrouping_job(3, 2, 5, SchemeRule::kAuto);
  const uint64_t middle = middle_of(options);
  for (uint64_t later = 0; later < 120; later += 12) {
    options.faults.clear();
    for (uint16_t rank = 0; rank < 3; ++rank)
      options.faults.push_back(
          {.kind = Fault::Kind::kLeave, .at_event = middle + rank * later, .a = worker(rank)});
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_regrouping(options, result) == "");
    if (result.outcome->finished) continue;
    CAPTURE(result.outcome->loss.message());
    CHECK(result.outcome->loss.kind == Loss::Kind::kLeft);
    // Of the last complete step, as which it was perhaps written before.
    REQUIRE_FALSE(result.checkpoints.empty());
    const int64_t saved = result.checkpoints.rbegin()->first;
    CHECK(saved >= result.outcome->loss.step - 2);
    CHECK(result.outcome->saved_step.value_or(saved) == saved);
  }
}

TEST_CASE("who is lost while the others regroup is left behind too") {
  SimulatedJobOptions options = regrouping_job(3, 2, 5, SchemeRule::kAuto);
  const uint64_t middle = middle_of(options);
  bool went_on_twice = false;
  for (uint64_t later = 0; later < 120; later += 12) {
    options.faults = {{.at_event = middle, .a = server(0)},
                      {.at_event = middle + later, .a = worker(2)}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_regrouping(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.steps.size() == 2);
    CHECK(result.regrouped.size() == 2);  // each is told of
    went_on_twice |= result.view == 3;
  }
  CHECK(went_on_twice);
}

TEST_CASE("without its last server, or below the least number of workers, a job ends, saved") {
  for (const NodeId lost : {server(0), worker(1)}) {
    SimulatedJobOptions options = regrouping_job(2, 1, 4, SchemeRule::kPs);
    options.min_workers = 2;
    options.faults = {{.at_event = middle_of(options) * 3 / 2, .a = lost}};
    const SimulatedJobResult result = run_job(options);
    CHECK(fault_in_regrouping(options, result) == "");
    CHECK_FALSE(result.outcome->finished);
    CHECK(result.outcome->loss.who == lost);
    CHECK(result.regrouped.empty());
    REQUIRE(result.outcome->saved_step.has_value());
    CHECK(result.checkpoints.contains(*result.outcome->saved_step));
  }
}

TEST_CASE("what would recur ends a job that could go on: replicas that differ") {
  SimulatedJobOptions options = regrouping_job(3, 2, 3, SchemeRule::kAuto);
  options.drifts = {1, 1};
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  CHECK_FALSE(result.outcome->finished);
  CHECK(result.outcome->loss.kind == Loss::Kind::kDrift);
  CHECK(result.regrouped.empty());
}

TEST_CASE("a job that is told to halt while it regroups does so in the next view") {
  SimulatedJobOptions options = regrouping_job(3, 2, 4, SchemeRule::kAuto);
  options.steps = 100;
  options.agree_every = 100;
  for (uint64_t later = 0; later < 60; later += 15) {
    options.faults = {{.at_event = 300, .a = worker(0)},
                      {.kind = Fault::Kind::kHalt, .at_event = 300 + later}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->finished);
    CHECK(result.regrouped.size() == 1);
    CHECK(result.steps.at(1) == result.steps.at(2));
    CHECK(result.steps.at(1) < 100);
    CHECK(result.digests.at(1) == reference_digest(options.plan, options.seed, result.steps.at(1)));
  }
}
