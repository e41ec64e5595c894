// Jobs with sums in flight that continue after node failures, on the simulated network. All nodes
// return to the last checkpoint, or restart at step 0 if there is none. The values equal those of a
// single process.

#include <doctest/doctest.h>

#include <array>

#include "comm/simulation/model.h"
#include "tests/simulation/halting.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using poseidon::test::kIsSanitized;

namespace {

/// A job with two checkpoints before the last step, and one after it.
SimulatedJobOptions late_job(int64_t workers, SchemeRule scheme, int64_t staleness) {
  SimulatedJobOptions options = reconfiguration_job(workers, 2, workers + 2, scheme);
  options.plan.staleness = staleness;
  options.steps = 8;
  options.agree_every = 3;
  return options;
}

uint64_t undisturbed_events(SimulatedJobOptions options) {
  options.faults.clear();
  return run_job(options).events;
}

SimulatedJobResult run_late(SimulatedJobOptions options, std::vector<Fault> faults) {
  options.faults = std::move(faults);
  SimulatedJobResult result = run_job(options);
  CAPTURE(description(options));
  CHECK(fault_in_reconfiguration(options, result) == "");
  return result;
}

/// Runs the job once for each node and every `stride`-th event, with a fault of the node at that
/// event. Returns for each of the steps 0 to 8 the number of views that started after it.
std::array<size_t, 9> strike_everywhere(const SimulatedJobOptions& options, uint64_t stride,
                                        Fault::Kind kind = Fault::Kind::kCrash) {
  std::array<size_t, 9> views{};
  const uint64_t events = undisturbed_events(options);
  for (const NodeId node : nodes_of(options))
    for (uint64_t event = 0; event < events; event += stride)
      for (const int64_t step :
           run_late(options, {{.kind = kind, .at_event = event, .a = node}}).began_after)
        ++views.at(static_cast<size_t>(step));
  return views;
}

/// Checks that views started after each checkpoint and after step 0, and after no other step.
void goes_back_to_checkpoints(const std::array<size_t, 9>& views) {
  for (size_t step = 0; step < views.size(); ++step) {
    CAPTURE(step);
    // Step 8 is the last one. Few failures then lead to another view.
    if (step < 8) CHECK((views[step] > 0) == (step % 3 == 0));
  }
}

}  // namespace

TEST_CASE("with sums in flight, a node crashes and the others resume from the last checkpoint") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    for (int64_t staleness = 1; staleness <= (kIsSanitized ? 1 : 2); ++staleness)
      goes_back_to_checkpoints(strike_everywhere(late_job(2, scheme, staleness), 53));
  goes_back_to_checkpoints(strike_everywhere(late_job(3, SchemeRule::kAuto, 2), 101));
}

TEST_CASE("with sums in flight, a node leaves and the others resume from the last checkpoint") {
  goes_back_to_checkpoints(
      strike_everywhere(late_job(3, SchemeRule::kAuto, 1), 101, Fault::Kind::kLeave));
}

TEST_CASE("with late sums, a second node fails while the others revert, and is removed too") {
  const SimulatedJobOptions options = late_job(3, SchemeRule::kAuto, 1);
  const uint64_t events = undisturbed_events(options);
  bool went_on_twice = false;
  constexpr auto kRunning = Coordinator::State::kRunning;
  for (const uint64_t event : {uint64_t{10}, events / 3})
    for (uint64_t later = 0; later < 120; later += 12) {
      const SimulatedJobResult result =
          run_late(options, {{.at_event = event, .in = kRunning, .a = {Role::kServer, 0}},
                             {.at_event = event + later, .in = kRunning, .a = {Role::kWorker, 2}}});
      CHECK(result.outcome->finished);
      CHECK(result.reconfigurations.size() == 2);
      went_on_twice |= result.view == 3;
    }
  CHECK(went_on_twice);
}

TEST_CASE("with late sums, a job with too few workers left ends with a checkpoint") {
  SimulatedJobOptions options = late_job(2, SchemeRule::kPs, 1);
  options.min_workers = 2;
  const SimulatedJobResult result = run_late(
      options, {{.at_event = undisturbed_events(options) * 3 / 4, .a = {Role::kWorker, 1}}});
  CHECK_FALSE(result.outcome->finished);
  CHECK(result.reconfigurations.empty());
  CHECK_FALSE(result.checkpoints.empty());
}

TEST_CASE("with late sums, a diverged worker is removed, and its sums in flight are discarded") {
  for (const uint64_t step : {20, 27, 39}) {
    SimulatedJobOptions options = late_job(3, SchemeRule::kAuto, 2);
    options.steps = 60;
    options.agree_every = 20;
    options.digest_every = 1;
    options.diverges = {1, step};
    const SimulatedJobResult result = run_late(options, {});
    CHECK(result.outcome->finished);
    REQUIRE(result.reconfigurations.size() == 1);
    CHECK(result.reconfigurations[0].who == NodeId{Role::kWorker, 1});
  }
}

TEST_CASE("with late sums, a job that is halted while it reverts halts in the next view") {
  SimulatedJobOptions options = late_job(3, SchemeRule::kAuto, 1);
  options.agree_every = 4;
  halts_in_the_next_view(options, 900);
}

TEST_CASE("with late sums, damaged checkpoints are skipped, down to the initial values") {
  SimulatedJobOptions options = late_job(2, SchemeRule::kAuto, 1);
  for (const std::vector<int64_t>& damaged : {std::vector<int64_t>{6}, {3, 6}}) {
    options.damaged = damaged;
    const std::array<size_t, 9> views = strike_everywhere(options, 53);
    CHECK(views[6] == 0);
    CHECK((views[3] > 0) == (damaged.size() == 1));
    CHECK(views[0] > 0);
  }
}
