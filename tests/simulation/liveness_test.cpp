// Heartbeats: any timeout in the allowed range works, also if a node pauses for half of it.

#include <doctest/doctest.h>

#include "comm/wire/liveness.h"
#include "tests/simulation/seeds/scenario.h"

using namespace poseidon::comm;

namespace {

/// Steps are so long that heartbeats alone show that a node is alive.
SimulatedJobOptions job_with_timeout(Time timeout) {
  PlanRequest request;
  request.workers = request.servers = 2;
  request.global_batch = 2;
  request.layers = {
      {.name = "conv", .type = "convolution", .tensors = {{"conv.weight", 100, false}}}};
  SimulatedJobOptions options{.plan = make_plan(request), .network = {}};
  options.timeout = timeout;
  options.forward = options.backward = timeout;
  options.steps = 2;
  return options;
}

Time time_of(double seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

}  // namespace

TEST_CASE("a job without faults finishes with any timeout") {
  for (const double seconds : {kMinTimeoutSeconds, 1.0, 2.4, 3.0, 10.0, 60.0}) {
    const SimulatedJobOptions options = job_with_timeout(time_of(seconds));
    CAPTURE(seconds);
    CHECK(fault_in(options, run_job(options)) == "");
  }
}

TEST_CASE("a node may pause for half a timeout at any early event") {
  for (const double seconds : {kMinTimeoutSeconds, 3.0, 10.0, 60.0}) {
    SimulatedJobOptions options = job_with_timeout(time_of(seconds));
    for (const NodeId node : {NodeId{}, NodeId{Role::kWorker, 0}, NodeId{Role::kServer, 1}})
      for (uint64_t event = 0; event < 100; event += 3) {
        options.faults = {{.kind = Fault::Kind::kPause,
                           .at_event = event,
                           .a = node,
                           .pause_for = options.timeout / 2}};
        CAPTURE(description(options));
        CHECK(fault_in(options, run_job(options)) == "");
      }
  }
}
