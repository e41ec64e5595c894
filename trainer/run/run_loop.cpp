#include "trainer/run/run_loop.h"

#include "trainer/step/net_batches.h"

namespace poseidon::trainer {

RunLoop::RunLoop(WorkerComputation& computation, const PreparedData& test, RunSink& sink, Log& log)
    : computation_(computation),
      test_(test),
      sink_(sink),
      log_(log),
      test_memory_(batch_cache(computation.engine().net())) {}

bool RunLoop::go(bool again) {
  if (again) run_due_work();
  while (sink_.begin(steps_done())) {
    sink_.trained(computation_.step());
    run_due_work();
  }
  checkpoint();
  const bool halted = sink_.halted();
  if (!halted) test();
  return halted;
}

void RunLoop::run_due_work() {
  const TrainConfig& train = computation_.part().job.config.train;
  if (is_due(train.checkpoint_every)) checkpoint();
  if (is_due(train.test_every)) test();
}

void RunLoop::drain() {
  if (drained_step_ == steps_done()) return;
  sink_.draining();
  if (steps_done() == computation_.part().published.steps) computation_.finish();
  computation_.drain_for_checkpoint();
  computation_.compare_devices();
  drained_step_ = steps_done();
  sink_.drained(steps_done());
}

std::optional<int64_t> RunLoop::save_last_step() {
  const std::optional<int64_t> step = computation_.abandon_step();
  if (step) checkpoint();
  return step;
}

void RunLoop::checkpoint() {
  drain();
  sink_.checkpoint(steps_done());
}

/// Whether an earlier session of the run has tested this step.
bool RunLoop::was_tested() const {
  const PublishedPlan& published = computation_.part().published;
  return published.tested && !published.again && steps_done() == published.first_step;
}

void RunLoop::test() {
  drain();
  if (test_.dataset == nullptr || tested_step_ == steps_done() || was_tested()) return;
  tested_step_ = steps_done();
  const WorkerPart& part = computation_.part();
  const JobConfig& config = part.job.config;
  const comm::Part own = part.plan.assignment.shards_of(part.rank);
  const TestOptions options{
      .seed = static_cast<uint64_t>(config.train.seed),
      .loader_threads = static_cast<int>(config.data.loader_threads),
      .on_error = config.data.test.on_error,
      .goes_on = [this](int64_t done, int64_t of) { return sink_.testing(done, of); },
      .parts = part.plan.logical_shards(),
      .own_parts = {.first = own.first, .count = own.count}};
  std::optional<TestSums> sums;
  computation_.with_ema([&] {
    sums = evaluate_part(computation_.engine().net(), test_, options, test_memory_, log_);
  });
  if (sums) sink_.tested(steps_done(), *sums);
}

}  // namespace poseidon::trainer
