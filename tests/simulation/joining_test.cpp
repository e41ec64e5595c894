// Jobs that nodes join while they run, on the simulated network. Whatever joins, and at whatever
// time, the values equal those of a single process, and no worker repeats a step.

#include <doctest/doctest.h>

#include <algorithm>

#include "comm/simulation/model.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using poseidon::test::kStride;

namespace {

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

SimulatedJobOptions growing_job(int64_t workers, int64_t servers, int64_t shards,
                                SchemeRule scheme) {
  SimulatedJobOptions options = reconfiguration_job(workers, servers, shards, scheme);
  options.max_workers = static_cast<uint16_t>(shards);
  options.max_servers = static_cast<uint16_t>(servers + 1);
  options.steps = 12;
  return options;
}

uint64_t events_of(SimulatedJobOptions options) {
  options.faults.clear();
  options.arrivals.clear();
  return run_job(options).events;
}

/// The event at one third of an undisturbed run.
uint64_t third_of(const SimulatedJobOptions& options) { return events_of(options) / 3; }

bool has_warned(const SimulatedJobResult& result, const std::string& of) {
  return std::ranges::any_of(result.warnings, [&](const std::string& warning) {
    return warning.find(of) != std::string::npos;
  });
}

/// Runs the job once for every `stride`-th event, with a node of this role that arrives at that
/// event. Returns the number of admitted joiners.
size_t join_everywhere(SimulatedJobOptions options, Role role, uint64_t stride) {
  size_t joined = 0;
  const auto steps = static_cast<size_t>(options.steps);
  for (uint64_t event = 0, last = events_of(options); event < last; event += stride) {
    options.arrivals = {{.role = role, .at_event = event}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->finished);
    CHECK(result.step_ends.size() == steps);  // no step is repeated
    CHECK(result.reconfigurations.size() == result.joined);
    for (const NodeFailure& why : result.reconfigurations)
      CHECK(why.kind == NodeFailure::Kind::kJoined);
    joined += result.joined;
  }
  return joined;
}

}  // namespace

TEST_CASE("a worker or server joins at any event, and all compute the values of one process") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    for (const Role role : {Role::kWorker, Role::kServer})
      CHECK(join_everywhere(growing_job(2, 2, 4, scheme), role, 31 * kStride) >= 4 / kStride);
  CHECK(join_everywhere(growing_job(1, 1, 3, SchemeRule::kAuto), Role::kWorker, 5) >= 2);
}

TEST_CASE("several nodes that arrive together join in one reconfiguration") {
  SimulatedJobOptions options = growing_job(2, 2, 5, SchemeRule::kAuto);
  const uint64_t third = third_of(options);
  options.arrivals = {{.role = Role::kWorker, .at_event = third},
                      {.role = Role::kServer, .at_event = third + 1},
                      {.role = Role::kWorker, .at_event = third + 2}};
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in_reconfiguration(options, result) == "");
  CHECK(result.joined == 3);
  CHECK(result.view == 2);
  CHECK(result.steps.size() == 4);
}

TEST_CASE("nodes that join after node failures restore the full number of nodes") {
  SimulatedJobOptions options = growing_job(3, 2, 6, SchemeRule::kAuto);
  options.max_workers = 3;
  options.max_servers = 2;
  const uint64_t third = third_of(options);
  options.faults = {{.at_event = third, .a = worker(1)}, {.at_event = third + 5, .a = server(0)}};
  for (uint64_t later = 90; later < 250; later += 40) {
    options.arrivals = {{.role = Role::kWorker, .at_event = third + later},
                        {.role = Role::kServer, .at_event = third + later}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.joined == 2);
    REQUIRE(result.steps.contains(3));
    CHECK(result.steps.at(3) == options.steps);
  }
}

TEST_CASE("a node that arrives during a reconfiguration joins the job") {
  SimulatedJobOptions options = growing_job(3, 2, 6, SchemeRule::kAuto);
  const uint64_t third = third_of(options);
  options.faults = {{.at_event = third, .a = worker(0)}};
  for (uint64_t later = 0; later < 60; later += 6) {
    options.arrivals = {{.role = Role::kWorker, .at_event = third - 20 + later}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.joined == 1);
  }
}

TEST_CASE("a joiner, or a member that sends it values, fails during the join and is removed") {
  SimulatedJobOptions options = growing_job(2, 2, 4, SchemeRule::kAuto);
  const uint64_t third = third_of(options);
  options.arrivals = {{.role = Role::kWorker, .at_event = third}};
  size_t again = 0;
  for (const NodeId failed : {worker(2), worker(0), worker(1), server(1)})
    for (uint64_t later = 5; later < 200; later += 5 * kStride) {
      options.faults = {{.at_event = third + later, .a = failed}};
      const SimulatedJobResult result = run_job(options);
      CAPTURE(description(options));
      CHECK(fault_in_reconfiguration(options, result) == "");
      CHECK(result.outcome->finished);
      again += result.view > 2 ? 1 : 0;
    }
  CHECK(again > 20 / kStride);
}

TEST_CASE("a job ends if its only worker with values fails before a joiner has a copy") {
  SimulatedJobOptions options = growing_job(1, 1, 2, SchemeRule::kPs);
  const uint64_t third = third_of(options);
  options.arrivals = {{.role = Role::kWorker, .at_event = third}};
  bool ended_early = false;
  for (uint64_t later = 2; later < 80; ++later) {
    options.faults = {{.at_event = third + later, .a = worker(0)}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    ended_early |= !result.outcome->finished && result.joined == 1;
  }
  CHECK(ended_early);
}

TEST_CASE("a job that is full, closed to joiners, or about to begin refuses joiners") {
  SimulatedJobOptions options = growing_job(2, 2, 4, SchemeRule::kPs);
  options.arrivals = {{.role = Role::kWorker, .at_event = third_of(options)}};
  options.max_workers = 2;
  CHECK(has_warned(run_job(options), "the job already has its maximum of 2 workers"));
  options.max_workers = 0;
  CHECK(has_warned(run_job(options), "a job is already running"));
  options.max_workers = 4;
  options.preparation = std::chrono::seconds(1);
  bool too_early = false;
  for (options.arrivals[0].at_event = 30; options.arrivals[0].at_event < 120;
       options.arrivals[0].at_event += 5)
    too_early |= has_warned(run_job(options), "the job is about to begin");
  CHECK(too_early);
}

TEST_CASE("a joiner without progress in its preparation is refused, and the job does not wait") {
  SimulatedJobOptions options = growing_job(2, 2, 4, SchemeRule::kPs);
  options.steps = 200;
  options.forward = options.backward = std::chrono::milliseconds(5);
  options.stall_timeout = std::chrono::seconds(3);
  options.arrivals = {{.role = Role::kWorker, .at_event = 250}};
  options.hangs = {{worker(2), Work::kPreparing}};
  const SimulatedJobResult result = run_job(options);
  CHECK(result.outcome->finished);
  CHECK(result.joined == 0);
  CHECK(result.view == 1);
  CHECK(has_warned(result, "no progress for 3 s"));
}

TEST_CASE("a joiner that is not ready within 60 s is removed") {
  SimulatedJobOptions options = growing_job(2, 2, 4, SchemeRule::kPs);
  options.steps = 200;
  options.forward = options.backward = std::chrono::milliseconds(5);
  options.arrivals = {{.role = Role::kWorker, .at_event = 250}};
  options.hangs = {{worker(2), Work::kBuilding}};
  const SimulatedJobResult result = run_job(options);
  CHECK(result.outcome->finished);
  CHECK(result.joined == 1);
  CHECK(result.view == 3);
  REQUIRE(result.reconfigurations.size() == 2);
  CHECK(result.reconfigurations[1].why == "the joiner was not ready within 60 s");
}

TEST_CASE("a job that is halted while a node joins halts") {
  SimulatedJobOptions options = growing_job(3, 2, 4, SchemeRule::kAuto);
  options.steps = 100;
  options.agree_every = 100;
  options.arrivals = {{.role = Role::kWorker, .at_event = 300}};
  for (uint64_t later = 0; later < 120; later += 12) {
    options.faults = {{.kind = Fault::Kind::kHalt, .at_event = 300 + later}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(result.idle == "");
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->finished);
    CHECK(result.steps.at(0) < 100);
    for (const auto& [rank, step] : result.steps) {
      CHECK(step == result.steps.at(0));
      CHECK(result.digests.at(rank) == reference_digest(options.plan, options.seed, step));
    }
  }
}

TEST_CASE("a joiner has no vote about a diverged worker, and it reverts to the checkpoint too") {
  SimulatedJobOptions options = growing_job(3, 2, 8, SchemeRule::kAuto);
  options.steps = 30;
  options.agree_every = 10;
  const uint64_t events = events_of(options);
  options.diverges = {0, 14};
  bool found_when_others_join = false, back_together = false;
  for (uint64_t event = events / 4; event < 3 * events / 4; event += events / (60 / kStride)) {
    // As many joiners as there are workers with right values, and one more that gets a copy of the
    // wrong values.
    options.arrivals = {{.at_event = event}, {.at_event = event + 1}, {.at_event = event + 2}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, result) == "");
    CHECK(result.outcome->finished);
    for (const NodeFailure& why : result.reconfigurations) {
      if (why.kind == NodeFailure::Kind::kJoined) continue;
      CAPTURE(why.message());
      CHECK(why.kind == NodeFailure::Kind::kDiverged);
      CHECK(why.who == worker(0));
      // Between checkpoints, replicas are compared only at the start of a view.
      found_when_others_join |= result.joined == 3 && why.step < 20;
      back_together |= result.joined == 3 && result.reconfigurations.size() == 1;
    }
  }
  CHECK(found_when_others_join);
  CHECK(back_together);
}

TEST_CASE("a job begins without absent nodes, and they join later") {
  SimulatedJobOptions options = growing_job(4, 2, 8, SchemeRule::kAuto);
  options.gather = std::chrono::seconds(5);
  options.min_workers = 2;
  options.max_workers = 4;
  options.max_servers = 2;
  options.absent = {worker(1), server(1)};
  const SimulatedJobResult fewer = run_job(options);
  CHECK(fault_in_reconfiguration(options, fewer) == "");
  CHECK(fewer.outcome->finished);
  CHECK(fewer.view == 1);
  CHECK(fewer.steps.size() == 3);
  options.arrivals = {{.role = Role::kServer, .at_event = fewer.events / 2},
                      {.role = Role::kWorker, .at_event = fewer.events / 2}};
  const SimulatedJobResult all = run_job(options);
  CHECK(fault_in_reconfiguration(options, all) == "");
  CHECK(all.outcome->finished);
  CHECK(all.joined == 2);
  CHECK(all.steps.size() == 4);
}

TEST_CASE("a job does not begin with too few workers or without a server") {
  SimulatedJobOptions options = growing_job(3, 1, 6, SchemeRule::kAuto);
  options.gather = std::chrono::seconds(5);
  options.min_workers = 2;
  const auto loss_without = [&](const std::vector<NodeId>& absent) {
    options.absent = absent;
    const SimulatedJobResult result = run_job(options);
    REQUIRE(result.outcome.has_value());
    CHECK(result.step_ends.empty());
    return result.outcome->failure.message();
  };
  CHECK(loss_without({worker(0), worker(2)}).find("missing: 2 workers") != std::string::npos);
  CHECK(loss_without({server(0)}).find("missing: 1 server") != std::string::npos);
}

TEST_CASE("many seeds: nodes join and fail at random events") {
  for (uint64_t seed = 1; seed <= 50; seed += kStride) {
    const SimulatedJobOptions options = joining_scenario(seed);
    CAPTURE(description(options));
    CHECK(fault_in_reconfiguration(options, run_job(options)) == "");
  }
}
