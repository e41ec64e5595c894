// The end of a job when a fault happens while it ends, and the reports of the nodes.

#include <doctest/doctest.h>

#include "tests/simulation/small_job.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using namespace std::chrono_literals;
using State = Coordinator::State;
using poseidon::test::kStride;

TEST_CASE("a job finishes if any node fails after the last step") {
  for (const Fault::Kind kind : {Fault::Kind::kCrash, Fault::Kind::kPause})
    for (const NodeId who : {NodeId{Role::kServer, 0}, NodeId{Role::kServer, 1},
                             NodeId{Role::kWorker, 0}, NodeId{Role::kWorker, 2}})
      for (uint64_t event = 0; event < 6; event += kStride) {
        const SimulatedJobResult result = run_with(
            small_job(), {{.kind = kind, .at_event = event, .in = State::kConcluding, .a = who}});
        CAPTURE(name_of(who));
        CHECK(result.ended);
        REQUIRE(result.outcome.has_value());
        CHECK(result.outcome->finished);
      }
}

TEST_CASE("a server that stalls after the last step is reported, and the job finishes") {
  const SimulatedJobResult result = run_with(small_job(), {{.kind = Fault::Kind::kPause,
                                                            .in = Coordinator::State::kConcluding,
                                                            .a = {Role::kServer, 1}}});
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->finished);
  CHECK(result.given_up == std::vector<NodeId>{{Role::kServer, 1}});
}

TEST_CASE("a halt after the last step lets the job finish") {
  const SimulatedJobResult result =
      run_with(small_job(), {{.kind = Fault::Kind::kHalt, .in = State::kConcluding}});
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->finished);
}

TEST_CASE("a job that is halted while it resolves a node failure ends with that failure") {
  const SimulatedJobResult result = run_with(
      small_job(), {{.kind = Fault::Kind::kPause, .at_event = 400, .a = {Role::kWorker, 1}},
                    {.kind = Fault::Kind::kHalt, .in = State::kSuspecting}});
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.who == NodeId{Role::kWorker, 1});
  CHECK(result.outcome->saved_step.has_value());
}

TEST_CASE("a job that is halted before the first step ends and reports it") {
  for (const State state : {State::kGathering, State::kConnecting}) {
    const SimulatedJobResult result =
        run_with(small_job(), {{.kind = Fault::Kind::kHalt, .at_event = 3, .in = state}});
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->failure.why == "stopped before the first step");
  }
}

TEST_CASE(
    "after a pause beyond the timeout, all nodes report the missing heartbeat as the reason") {
  size_t failed = 0;
  for (const auto pause_for : {3100ms, 3600ms, 6000ms})
    for (uint64_t event = 300; event < 330; event += 3) {
      const SimulatedJobResult result = run_with(small_job(), {{.kind = Fault::Kind::kPause,
                                                                .at_event = event,
                                                                .a = {Role::kWorker, 1},
                                                                .pause_for = pause_for}});
      CAPTURE(event);
      CAPTURE(pause_for.count());
      REQUIRE(result.outcome.has_value());
      if (result.outcome->finished) continue;
      ++failed;
      CHECK(result.outcome->failure.who == NodeId{Role::kWorker, 1});
      CHECK(result.outcome->failure.why == "no heartbeat for 3 s");
      for (const auto& [rank, failure] : result.failures)
        CHECK(failure.message().starts_with("worker 1 (w1) failed"));
    }
  CHECK(failed >= 20);
}
