// The in-memory checkpoint that a worker keeps between two jobs of a run.

#include "trainer/state/in_memory_checkpoint.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"

using namespace poseidon;
using namespace poseidon::trainer;
using namespace std::chrono_literals;

namespace {

/// The tensors of a run in memory, with space for the sums of two steps.
struct LiveRun {
  explicit LiveRun(const TinyJob& tiny)
      : job(tiny.load()),
        engine(job, {.choices = {}, .versions = 2}, log),
        optimizer(job.config.optimizer, engine.net(), engine.updater()),
        sums(engine.net(), 2),
        tensors(tensors_of(engine.net(), optimizer, sums)) {
    sums.begin_with(5, 1);
  }

  SilentLog log;
  Job job;
  Engine engine;
  Optimizer optimizer;
  SumsInFlight sums;
  RunTensors tensors;
};

void fill(const RunTensors& tensors, int64_t in_flight, float first) {
  for (const NamedTensor* tensor : in_order(tensors, in_flight)) {
    std::vector<float> values(tensor->count());
    for (float& value : values) value = first++;
    tensor->set(values);
  }
}

RunState state_after(int64_t step, int64_t in_flight = 0) {
  RunState state;
  state.step = step;
  state.in_flight = in_flight;
  return state;
}

InMemoryCheckpoint step_of(const std::string& run, int64_t step) {
  return {.run = run, .state = state_after(step), .tensors = nullptr};
}

}  // namespace

TEST_CASE(
    "an in-memory checkpoint equals the checkpoint of its step and does not change afterwards") {
  const TinyJob tiny;
  LiveRun run(tiny);
  fill(run.tensors, 1, 1);
  const std::string digest = state_sha256(run.tensors, 1);
  InMemoryCheckpoint kept = copy_step("a run", state_after(6, 1), run.tensors);
  fill(run.tensors, 1, 1000);
  CHECK(kept.run == "a run");
  CHECK(kept.state.step == 6);
  CHECK(state_sha256(kept.tensors->tensors(), 1) == digest);
  CHECK(tensor_list(kept.tensors->tensors()) == tensor_list(run.tensors));
}

TEST_CASE("an in-memory checkpoint is kept for its run until another replaces it or it expires") {
  InMemoryCheckpointStore checkpoint_store;
  const InMemoryCheckpointStore::Clock::time_point now{};
  CHECK(checkpoint_store.of("one") == nullptr);
  CHECK(checkpoint_store.left(now) == 0s);
  checkpoint_store.keep(step_of("one", 7), now + 2500ms);
  REQUIRE(checkpoint_store.of("one") != nullptr);
  CHECK(checkpoint_store.of("one")->state.step == 7);
  CHECK(checkpoint_store.of("two") == nullptr);
  CHECK(checkpoint_store.left(now) == 3s);
  checkpoint_store.drop("two");
  CHECK(checkpoint_store.of("one") != nullptr);
  CHECK(checkpoint_store.give_up(now + 2499ms) == "");
  CHECK(checkpoint_store.give_up(now + 2500ms) ==
        "dropped the in-memory checkpoint of step 7: its run was not resumed in time");
  CHECK(checkpoint_store.of("one") == nullptr);
  CHECK(checkpoint_store.give_up(now + 1h) == "");

  checkpoint_store.keep(step_of("one", 8), now + 1s);
  checkpoint_store.keep(step_of("two", 3), now + 9s);
  CHECK(checkpoint_store.of("one") == nullptr);
  CHECK(checkpoint_store.give_up(now + 2s) == "");
  checkpoint_store.drop("two");
  CHECK(checkpoint_store.of("two") == nullptr);
  CHECK(checkpoint_store.left(now) == 0s);
}
