#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/run/worker_computation.h"
#include "trainer/step/evaluation.h"

namespace poseidon::trainer {

/// Destination of a run's steps, checkpoints and tests: files of this process, or a coordinator.
/// RunLoop calls it in the compute thread.
class RunSink {
 public:
  virtual ~RunSink() = default;

  /// Returns whether to make the step after `done` steps. May block until the coordinator has
  /// decided.
  virtual bool begin(int64_t done) = 0;
  virtual void trained(StepReport report) = 0;
  /// Called before RunLoop makes all pending updates.
  virtual void draining() {}
  /// Called once for each step after which a checkpoint or test follows. All updates due by then
  /// are made, so replicas can be compared. With staleness, the sums in flight are in host memory.
  /// At the end of the job none are in flight, because they are applied too.
  virtual void drained(int64_t /*step*/) {}
  /// Saves a checkpoint of `step`. Called after drained(). At the end of a run it may be called
  /// twice for one step.
  virtual void checkpoint(int64_t step) = 0;
  /// Called before each batch of a test. Returns whether to continue the test.
  virtual bool testing(int64_t done, int64_t of) = 0;
  virtual void tested(int64_t step, const TestSums& sums) = 0;
  /// Whether the run was stopped early and therefore skips its last test.
  virtual bool halted() = 0;
};

/// The main loop of a worker: steps, and periodic checkpoints and tests as configured. After the
/// last step it makes a checkpoint, and a test unless the run was halted.
class RunLoop {
 public:
  /// All arguments must outlive this object. `test.dataset` may be null.
  RunLoop(WorkerComputation& computation, const PreparedData& test, RunSink& sink, Log& log);

  /// Runs all remaining steps. Returns whether the run was halted. Passes on exceptions of steps
  /// and sink. If `again` is true, go() first makes the checkpoint and test that are due after the
  /// steps already done. The earlier view or session may have ended before it made them.
  bool go(bool again = false);
  /// After go() has thrown: calls the sink to write the last complete step as a checkpoint. Returns
  /// that step; nullopt if an update of the failed step had begun. Passes on exceptions of the
  /// sink.
  std::optional<int64_t> save_last_step();

 private:
  int64_t steps_done() const { return computation_.steps_done(); }
  bool is_due(int64_t every) const { return every > 0 && steps_done() % every == 0; }
  void run_due_work();
  void drain();
  void checkpoint();
  bool was_tested() const;
  void test();

  WorkerComputation& computation_;
  const PreparedData& test_;
  RunSink& sink_;
  Log& log_;
  BufferCache test_memory_;  ///< memory of the tests' batches
  int64_t drained_step_ = -1, tested_step_ = -1;
};

}  // namespace poseidon::trainer
