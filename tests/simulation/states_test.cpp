// Every state of the coordinator and of a member must end: the test stalls each one.
// docs/cluster.md contains the table of states (comm/membership/states.h).

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "comm/membership/states.h"
#include "tests/simulation/small_job.h"
#include "tests/support/folders.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using namespace std::chrono_literals;
using State = Coordinator::State;
using poseidon::test::kStride;

namespace {

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

/// A job that stalls in a state, the message that ends the state, and its duration.
struct Stall {
  State state;
  SimulatedJobOptions options;
  Time lasts;        ///< duration of the state
  std::string says;  ///< text of the node failure or of a warning
  bool finishes = false;
  std::optional<int64_t> saved = {};  ///< a checkpoint of this step or a later one
};

SimulatedJobOptions with(std::vector<Hang> hangs, std::vector<Fault> faults = {}) {
  SimulatedJobOptions options = small_job();
  options.stall_timeout = 20s;
  options.hangs = std::move(hangs);
  options.faults = std::move(faults);
  return options;
}

SimulatedJobOptions that_recovers(std::vector<Hang> hangs, std::vector<Fault> faults) {
  SimulatedJobOptions options = with(std::move(hangs), std::move(faults));
  options.recovers = true;
  return options;
}

SimulatedJobOptions with_a_kept_step(std::vector<Hang> hangs) {
  SimulatedJobOptions options = with(std::move(hangs));
  options.checkpoint_holder = 1;
  return options;
}

/// The link is so slow that no slice arrives in time, while heartbeats do.
SimulatedJobOptions on_a_slow_link() {
  SimulatedJobOptions options = small_job();
  options.measures_link = true;
  options.timeout = 1000s;
  options.stall_timeout = 2000s;
  options.network.bytes_per_second = 262'144.0 / 550;
  return options;
}

/// A server that stores no layer fails: no node waits for data from it.
SimulatedJobOptions with_an_idle_server() {
  PlanRequest request;
  request.workers = 2;
  request.servers = 3;
  request.global_batch = 2;
  request.layers = {
      {.name = "conv", .type = "convolution", .tensors = {{"conv.weight", 100, false}}}};
  SimulatedJobOptions options = small_job();
  options.plan = make_plan(request);
  const auto idle = static_cast<uint16_t>(options.plan.chunks.at(0).server == 2 ? 1 : 2);
  options.faults = {{.at_event = 5, .in = State::kRunning, .a = server(idle)}};
  return options;
}

const Fault kWorker0Crashes{.at_event = 150, .in = State::kRunning, .a = worker(0)};

std::vector<Stall> stalls() {
  SimulatedJobOptions never_joins = with({}, {{.a = server(1)}});
  SimulatedJobOptions hangs_in_a_step = with({});
  hangs_in_a_step.stalls = {1, 4};
  return {
      {State::kGathering, never_joins, 30s,
       "server 1 failed before the first step: it did not "
       "join within 30 s; missing: 1 server"},
      {State::kPreparing, with({{worker(1), Work::kPreparing}}), 20s,
       "worker 1 (w1) stalled before the first step: no progress for 20 s; last activity: opening "
       "data"},
      {State::kFetching, with_a_kept_step({{worker(1), Work::kSendingCheckpoint}}), 20s,
       "worker 1 has a later in-memory checkpoint of this run, but sent no tensor of it for 20 s; "
       "the job continues without it",
       true},
      {State::kMeasuring, on_a_slow_link(), 1060s,
       "worker 0 (w0) stalled before the first step: it reported no link speed within "
       "1060 s"},
      {State::kConnecting, with({{worker(2), Work::kBuilding}}), 20s,
       "worker 2 (w2) stalled before the first step: no progress for 20 s; last activity: building "
       "the net"},
      {State::kRunning, hangs_in_a_step, 20s,
       "worker 1 (w1) stalled in step 5: no progress for 20 s; last activity: training; steps "
       "completed: 4",
       false, 4},
      {State::kConcluding, with({{server(0), Work::kConcluding}}), 3s,
       "no longer waiting for server 0: it did not report its traffic within 3 s", true},
      {State::kSuspecting, with_an_idle_server(), 300ms, "connection reset by peer"},
      {State::kReconfiguring, that_recovers({{worker(1), Work::kStopping}}, {kWorker0Crashes}), 3s,
       "worker 1 (w1) stalled in step 5: it did not stop computing within 3 s", true},
      {State::kFailing, with({{worker(1), Work::kStopping}}, {kWorker0Crashes}), 3s,
       "no longer waiting for worker 1: it did not stop computing within 3 s"},
      {State::kSaving, with({{worker(1), Work::kSaving}}, {kWorker0Crashes}), 3s,
       "no longer waiting for worker 1: it sent no tensor of its checkpoint for 3 s"},
  };
}

/// Duration of the coordinator's first stay in a state.
Time time_in(State state, const SimulatedJobResult& result) {
  for (size_t i = 0; i + 1 < result.states.size(); ++i)
    if (result.states[i].first == state)
      return result.states[i + 1].second - result.states[i].second;
  return Time{0};
}

std::string all_words(const SimulatedJobResult& result) {
  std::string words = result.outcome->finished ? "" : result.outcome->failure.message();
  for (const std::string& warning : result.warnings) words += "\n" + warning;
  for (const NodeFailure& failure : result.reconfigurations) words += "\n" + failure.message();
  return words;
}

}  // namespace

TEST_CASE(
    "each state of the coordinator ends at its deadline if the awaited event does not occur") {
  const std::vector<Stall> all = stalls();
  REQUIRE(all.size() == kCoordinatorStates.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Stall& stall = all[i];
    CAPTURE(kCoordinatorStates[i].state);
    REQUIRE(stall.state == static_cast<State>(i));
    const SimulatedJobResult result = run_job(stall.options);
    CHECK(result.idle == "");
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->finished == stall.finishes);
    const std::string words = all_words(result);
    CAPTURE(words);
    CHECK(words.find(stall.says) != std::string::npos);
    const Time lasted = time_in(stall.state, result);
    CHECK(lasted >= stall.lasts);
    CHECK(lasted <= stall.lasts + stall.options.timeout / 10);
    if (!stall.saved) continue;
    REQUIRE(!result.checkpoints.empty());
    CHECK(result.checkpoints.rbegin()->first >= *stall.saved);
  }
}

TEST_CASE("if the coordinator stalls or crashes in any state, all members end in time") {
  for (const Fault::Kind kind : {Fault::Kind::kPause, Fault::Kind::kCrash})
    for (uint8_t state = 0; state < kCoordinatorStates.size(); ++state)
      for (uint64_t event = 0; event < 40; event += 4 * kStride) {
        const Fault end{.kind = kind, .at_event = event, .in = static_cast<State>(state)};
        SimulatedJobOptions options = with({});
        if (static_cast<State>(state) == State::kFetching) options.checkpoint_holder = 1;
        options.measures_link = state == static_cast<uint8_t>(State::kMeasuring);
        options.recovers = static_cast<State>(state) == State::kReconfiguring;
        // Adds a failure, so that the job also gets to the states that follow one.
        if (static_cast<State>(state) >= State::kSuspecting)
          options.faults.push_back(kWorker0Crashes);
        options.faults.push_back(end);
        const SimulatedJobResult result = run_job(options);
        CAPTURE(kCoordinatorStates[state].state);
        CAPTURE(event);
        CHECK(result.idle == "");
      }
}

TEST_CASE("a worker's in-memory checkpoint is fetched before the plan is made") {
  const SimulatedJobResult result = run_job(with_a_kept_step({}));
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->finished);
  CHECK(result.checkpoints.contains(0));
  CHECK(time_in(State::kFetching, result) > 0s);
}

TEST_CASE(
    "if a worker fails during the fetch of its checkpoint, the job waits for another worker") {
  SimulatedJobOptions options = with_a_kept_step({});
  options.faults = {{.in = State::kFetching, .a = worker(1)}};
  const SimulatedJobResult result = run_job(options);
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.message() ==
        "worker 1 failed before the first step: it did not join within 30 s; missing: 1 worker");
  REQUIRE(!result.warnings.empty());
  CHECK(result.warnings[0].starts_with("the node left before the job began: "));
}

TEST_CASE("survivors that hang in different states are dropped one by one, and another one saves") {
  SimulatedJobOptions options = with({{worker(1), Work::kStopping}}, {kWorker0Crashes});
  options.hangs.push_back({server(0), Work::kConcluding});
  const SimulatedJobResult result = run_job(options);
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.who == worker(0));
  CHECK(result.outcome->saved_step.has_value());
  CHECK(result.failures.at(2).who == worker(0));
  CHECK(result.given_up == std::vector<NodeId>{worker(1)});
}

TEST_CASE("survivors that hang at the same time are dropped at the same time") {
  SimulatedJobOptions options = with({{worker(1), Work::kStopping}}, {kWorker0Crashes});
  options.hangs.push_back({worker(2), Work::kStopping});
  const SimulatedJobResult one = run_job(with({{worker(1), Work::kStopping}}, {kWorker0Crashes}));
  const SimulatedJobResult both = run_job(options);
  CHECK(both.given_up.size() == 2);
  CHECK(time_in(State::kFailing, both) == time_in(State::kFailing, one));
}

TEST_CASE("a test may take longer than the stall timeout") {
  SimulatedJobOptions options = with({});
  options.stall_timeout = 2s;
  options.test_batches = 10;
  CHECK(run_job(options).outcome->finished);
}

TEST_CASE("a worker that hangs in a test is reported with its last activity") {
  SimulatedJobOptions options = with({{worker(2), Work::kTesting}});
  options.stall_timeout = 100s;
  options.test_batches = 10;
  const SimulatedJobResult result = run_job(options);
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->failure.message() ==
        "worker 2 (w2) stalled in step 5: no progress for 100 s; last activity: testing, 1 of 10 "
        "batches; steps completed: 4");
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].starts_with("no progress from worker 2 for 6"));
  CHECK(result.warnings[0].ends_with(
      "; last activity: testing, 1 of 10 batches; steps completed: 4"));
}

TEST_CASE("docs/cluster.md lists the states of the coordinator and of members") {
  std::ifstream file(poseidon::test::source_folder() + "/docs/cluster.md");
  std::ostringstream page;
  page << file.rdbuf();
  const auto shows = [&](const StateRow& row) {
    const std::string line = "| " + std::string(row.state) + " | " + std::string(row.ends_with) +
                             " | " + std::string(row.deadline) + " | " + std::string(row.then) +
                             " |\n";
    CAPTURE(line);
    CHECK(page.str().find(line) != std::string::npos);
  };
  for (const StateRow& row : kCoordinatorStates) shows(row);
  for (const StateRow& row : kMemberStates) shows(row);
}
