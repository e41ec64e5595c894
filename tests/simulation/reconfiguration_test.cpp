// Jobs that continue after node failures, on the simulated network. Whatever node fails, and at
// whatever time, the values equal those of a single process.

#include <doctest/doctest.h>

#include "comm/simulation/model.h"
#include "tests/simulation/halting.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using State = Coordinator::State;
using poseidon::test::kStride;

namespace {

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

/// The event in the middle of an undisturbed run.
uint64_t middle_of(SimulatedJobOptions options) {
  options.faults.clear();
  return run_job(options).events / 2;
}

/// Runs the job once for each node and every `stride`-th event. At that event the node crashes, or
/// is asked to leave. Returns how often the job continued.
size_t lose_everywhere(SimulatedJobOptions options, uint64_t stride,
                       Fault::Kind kind = Fault::Kind::kCrash) {
  size_t reconfigurations = 0;
  const uint64_t events = 2 * middle_of(options);
  for (const NodeId node : nodes_of(options))
    for (uint64_t event = 0; event < events; event += stride) {
      options.faults = {{.kind = kind, .at_event = event, .a = node}};
      const SimulatedJobResult result = run_job(options);
      CAPTURE(description(options));
      CHECK(fault_in_reconfiguration(options, result) == "");
      reconfigurations += result.reconfigurations.size();
    }
  return reconfigurations;
}

}  // namespace

TEST_CASE("a job that can reconfigure has one view if no node fails") {
  const SimulatedJobOptions options = reconfiguration_job(2, 2, 4, SchemeRule::kAuto);
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_reconfiguration(options, result) == "");
  CHECK(result.outcome->finished);
  CHECK(result.view == 1);
}

TEST_CASE("any node crashes, and the other nodes compute the values of one process") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    CHECK(lose_everywhere(reconfiguration_job(2, 2, 4, scheme), 53) >= 4);
  CHECK(lose_everywhere(reconfiguration_job(3, 2, 5, SchemeRule::kAuto), 101) >= 4);
}

TEST_CASE("a member that fails between the plan and the first step ends the job") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb})
    for (const Fault::Kind kind : {Fault::Kind::kCrash, Fault::Kind::kLeave, Fault::Kind::kPause})
      for (uint64_t event = 0; event < 24; event += 2 * kStride) {
        SimulatedJobOptions options = reconfiguration_job(3, 2, 5, scheme);
        for (const NodeId node : {worker(0), worker(2), server(1)}) {
          options.faults = {{.kind = kind, .at_event = event, .in = State::kConnecting, .a = node}};
          const SimulatedJobResult result = run_job(options);
          CAPTURE(description(options));
          CHECK(result.idle == "");
          REQUIRE_FALSE(result.outcome->finished);
          CHECK_FALSE(result.began);
          CHECK(result.reconfigurations.empty());
          CHECK(result.outcome->failure.who == node);
        }
      }
}

TEST_CASE("any node leaves on request, and the other nodes compute the values of one process") {
  CHECK(lose_everywhere(reconfiguration_job(3, 2, 5, SchemeRule::kAuto), 53, Fault::Kind::kLeave) >=
        8);
}

TEST_CASE("all workers may leave one after another, and the last one saves") {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 5, SchemeRule::kAuto);
  const uint64_t middle = middle_of(options);
  for (uint64_t later = 0; later < 120; later += 12) {
    options.faults.clear();
    for (uint16_t rank = 0; rank < 3; ++rank)
      options.faults.push_back(
          {.kind = Fault::Kind::kLeave, .at_event = middle + rank * later, .a = worker(rank)});
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    if (result.outcome->finished) continue;
    CAPTURE(result.outcome->failure.message());
    CHECK(result.outcome->failure.kind == NodeFailure::Kind::kLeft);
    // The checkpoint of the last complete step. An earlier checkpoint of that step counts too.
    REQUIRE_FALSE(result.checkpoints.empty());
    const int64_t saved = result.checkpoints.rbegin()->first;
    CHECK(saved >= result.outcome->failure.step - 2);
    CHECK(result.outcome->saved_step.value_or(saved) == saved);
  }
}

TEST_CASE("a second node that fails during a reconfiguration is removed too") {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 5, SchemeRule::kAuto);
  const uint64_t middle = middle_of(options);
  bool went_on_twice = false;
  for (uint64_t later = 0; later < 120; later += 12) {
    options.faults = {{.at_event = middle, .a = server(0)},
                      {.at_event = middle + later, .a = worker(2)}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.steps.size() == 2);
    CHECK(result.reconfigurations.size() == 2);  // one per failed node
    went_on_twice |= result.view == 3;
  }
  CHECK(went_on_twice);
}

TEST_CASE("a job without a server, or with too few workers, saves a checkpoint and ends") {
  for (const NodeId failed : {server(0), worker(1)}) {
    SimulatedJobOptions options = reconfiguration_job(2, 1, 4, SchemeRule::kPs);
    options.min_workers = 2;
    options.faults = {{.at_event = middle_of(options) * 3 / 2, .a = failed}};
    const SimulatedJobResult result = run_job(options);
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK_FALSE(result.outcome->finished);
    CHECK(result.outcome->failure.who == failed);
    CHECK(result.reconfigurations.empty());
    REQUIRE(result.outcome->saved_step.has_value());
    CHECK(result.checkpoints.contains(*result.outcome->saved_step));
  }
}

TEST_CASE("a divergence before the first checkpoint ends the job") {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 3, SchemeRule::kAuto);
  options.diverges = {1, 1};
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  CHECK_FALSE(result.outcome->finished);
  CHECK(result.outcome->failure.kind == NodeFailure::Kind::kDiverged);
  CHECK(result.reconfigurations.empty());
}

namespace {

/// A job in which the replica of worker 1 diverges, and then its contributions to sums.
SimulatedJobOptions spoilt_job(int64_t workers, uint64_t step) {
  SimulatedJobOptions options = reconfiguration_job(workers, 2, workers + 2, SchemeRule::kAuto);
  options.steps = 60;
  options.agree_every = 20;
  options.digest_every = 1;
  options.diverges = {1, step};
  return options;
}

}  // namespace

TEST_CASE("a diverged worker is removed, and the others resume from the last checkpoint") {
  for (const uint64_t step : {20, 27, 39, 45}) {
    const SimulatedJobOptions options = spoilt_job(3, step);
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    REQUIRE(result.reconfigurations.size() == 1);
    const NodeFailure& failure = result.reconfigurations[0];
    CAPTURE(failure.message());
    CHECK(failure.kind == NodeFailure::Kind::kDiverged);
    CHECK(failure.who == worker(1));
    CHECK(failure.why.find(" differs from that of 2 other workers after ") != std::string::npos);
    // Each of the ten groups of tensors is compared once in ten steps.
    CHECK(failure.step > static_cast<int64_t>(step));
    CHECK(failure.step <= static_cast<int64_t>(step) + 11);
    CHECK(result.failures.at(1).who == worker(1));
    CHECK(result.failures.at(1).kind == NodeFailure::Kind::kDiverged);
  }
}

TEST_CASE("without partial comparisons, the next full comparison finds the diverged worker") {
  SimulatedJobOptions options = spoilt_job(3, 21);
  options.digest_every = 0;
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_reconfiguration(options, result) == "");
  CHECK(result.outcome->finished);
  REQUIRE(result.reconfigurations.size() == 1);
  CHECK(result.reconfigurations[0].step == 40);
}

TEST_CASE("a node failure does not change the checkpoint to which the others revert") {
  for (const State state : {State::kReconfiguring, State::kConnecting})
    for (uint64_t later = 0; later < 16; later += 3 * kStride)
      for (const NodeId failed : {worker(0), worker(3), server(1)}) {
        SimulatedJobOptions options = spoilt_job(4, 27);
        // The job connects a second time after it has found the divergence.
        options.faults = {{.at_event = later, .in = State::kReconfiguring, .a = failed}};
        if (state == State::kConnecting) options.faults[0].at_event += 20;
        const SimulatedJobResult result = run_job(options);
        CAPTURE(description(options));
        CHECK(fault_in_reconfiguration(options, result) == "");
        CHECK(result.outcome->finished);
        CHECK(result.reconfigurations.size() == 2);
      }
}

TEST_CASE("a divergence of two workers ends the job, because there is no majority") {
  const SimulatedJobOptions options = spoilt_job(2, 27);
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  REQUIRE_FALSE(result.outcome->finished);
  CHECK(result.reconfigurations.empty());
  CHECK(result.outcome->failure.message().starts_with("the workers diverged in step "));
  CHECK(result.outcome->failure.why.find(" of worker 0 differs from that of worker 1 after ") !=
        std::string::npos);
}

namespace {

/// Checks a job in which the connection of two live members breaks. The job must remove `lost` and
/// continue with the others.
void removes_one(SimulatedJobOptions options, const std::vector<Fault>& faults, NodeId failed,
                 const std::string& other) {
  options.faults = faults;
  const SimulatedJobResult result = run_job(options);
  CAPTURE(description(options));
  CHECK(fault_in_reconfiguration(options, result) == "");
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->finished);
  REQUIRE(result.reconfigurations.size() == 1);
  const NodeFailure& failure = result.reconfigurations[0];
  CAPTURE(failure.message());
  CHECK(failure.who == failed);
  CHECK(failure.why.starts_with("it and " + other +
                                " have no connection, although the coordinator "));
  // The removed worker gets the same message.
  if (failed.role == Role::kWorker) CHECK(result.failures.at(failed.rank).who == failed);
}

/// Steps take long enough for a timeout.
SimulatedJobOptions long_job(SchemeRule scheme) {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 5, scheme);
  options.steps = 6;
  return options;
}

}  // namespace

TEST_CASE("a broken connection between two live nodes removes one of them, by a fixed rule") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb}) {
    const SimulatedJobOptions options = long_job(scheme);
    const uint64_t middle = middle_of(options);
    const auto cut = [&](NodeId a, NodeId b) {
      return std::vector<Fault>{{.kind = Fault::Kind::kCut, .at_event = middle, .a = a, .b = b}};
    };
    for (uint16_t rank = 0; rank < 3; ++rank)
      for (uint16_t other = 0; other < 2; ++other)
        removes_one(options, cut(worker(rank), server(other)), server(other),
                    "worker " + std::to_string(rank));
    if (scheme == SchemeRule::kPs) continue;  // workers have no connection to each other
    removes_one(options, cut(worker(0), worker(1)), worker(1), "worker 0");
    removes_one(options, cut(worker(2), worker(1)), worker(2), "worker 1");
  }
}

TEST_CASE(
    "of two live nodes, the unheard one is removed, or the later one if neither hears the other") {
  const SimulatedJobOptions options = long_job(SchemeRule::kSfb);
  const uint64_t middle = middle_of(options);
  const auto deaf = [&](NodeId from, NodeId to) {
    return Fault{.kind = Fault::Kind::kBlocked, .at_event = middle, .a = from, .b = to};
  };
  for (const auto& [a, b] :
       {std::pair(worker(0), worker(1)), {worker(0), server(0)}, {worker(2), worker(0)}}) {
    removes_one(options, {deaf(a, b)}, a, name_of(b));
    removes_one(options, {deaf(b, a)}, b, name_of(a));
    removes_one(options, {deaf(a, b), deaf(b, a)}, std::max(a, b), name_of(std::min(a, b)));
  }
}

TEST_CASE("a node cut off from all nodes except the coordinator is removed alone") {
  const SimulatedJobOptions options = long_job(SchemeRule::kSfb);
  const uint64_t middle = middle_of(options);
  for (const NodeId lonely : {worker(0), worker(2), server(0)}) {
    // Servers are not named: they have no connection to each other.
    removes_one(options, cut_off(lonely, nodes_of(options), middle), lonely,
                lonely.role == Role::kServer
                    ? "worker 0 and 2 others"
                    : name_of(worker(lonely.rank == 0 ? 1 : 0)) + " and 3 others");
  }
}

TEST_CASE("a node that stays unreachable in the next view is removed there") {
  SimulatedJobOptions options = long_job(SchemeRule::kPs);
  const uint64_t middle = middle_of(options);
  // Worker 2 crashes. During the reconfiguration the connection of worker 0 and server 0 breaks for
  // good.
  options.faults = {
      {.at_event = middle, .a = worker(2)},
      {.kind = Fault::Kind::kBlocked, .at_event = middle + 5, .a = worker(0), .b = server(0)},
      {.kind = Fault::Kind::kBlocked, .at_event = middle + 5, .a = server(0), .b = worker(0)}};
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_reconfiguration(options, result) == "");
  CHECK(result.outcome->finished);
  REQUIRE(result.reconfigurations.size() == 2);
  CHECK(result.reconfigurations[1].who == server(0));
  CHECK(result.reconfigurations[1].why.find(
            "the connection attempt failed: no answer within 5 s") != std::string::npos);
}

TEST_CASE("a worker that resumes after its timeout learns that the job removed it") {
  SimulatedJobOptions options = long_job(SchemeRule::kAuto);
  options.faults = {{.kind = Fault::Kind::kPause,
                     .at_event = middle_of(options),
                     .a = worker(1),
                     .pause_for = 2 * options.timeout}};
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_reconfiguration(options, result) == "");
  CHECK(result.outcome->finished);
  REQUIRE(result.returned.contains(1));
  CHECK(result.returned.at(1).who == worker(1));
  CHECK(result.returned.at(1).why == "no heartbeat for 3 s");
}

TEST_CASE("a job that is halted during a reconfiguration halts in the next view") {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 4, SchemeRule::kAuto);
  options.agree_every = 100;
  halts_in_the_next_view(options, 300);
}
