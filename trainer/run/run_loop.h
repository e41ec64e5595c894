#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/run/worker_computation.h"
#include "trainer/step/evaluation.h"

namespace poseidon::trainer {

/// Where the steps, checkpoints and tests of a run go: into this process's files, or to a
/// coordinator. Called by RunLoop, in the compute thread.
class RunSink {
 public:
  virtual ~RunSink() = default;

  /// Whether the step after `done` ones is to be made. May wait for that to be decided.
  virtual bool begin(int64_t done) = 0;
  virtual void trained(StepReport report) = 0;
  /// All updates are about to be made.
  virtual void settling() {}
  /// All updates up to `step` are made, those of the job at its end, and the sums that stay in
  /// flight are kept: replicas may be compared. Called once for a step.
  virtual void settled(int64_t /*step*/) {}
  /// A checkpoint of `step` is due, which is settled. At the end of a run it may be due twice.
  virtual void checkpoint(int64_t step) = 0;
  /// Before each batch of a test. Returns whether the test goes on.
  virtual bool testing(int64_t done, int64_t of) = 0;
  virtual void tested(int64_t step, const TestSums& sums) = 0;
  /// Whether the run has come to its end before its time, and so goes without its last test.
  virtual bool halted() = 0;
};

/// The course of a run in one worker: its steps, and after some of them checkpoints and tests, as
/// the job says; at the end both.
class RunLoop {
 public:
  /// All of them must outlive it; `test` may hold no dataset.
  RunLoop(WorkerComputation& computation, const PreparedData& test, RunSink& sink, Log& log)
      : computation_(computation), test_(test), sink_(sink), log_(log) {}

  /// Returns whether the run was halted. Lets through what steps and sink throw. `again`: the steps
  /// go on in another view behind one of the run's own, and what is due after that may have been
  /// lost with the view before.
  bool go(bool again = false);
  /// When go() has thrown: has the last complete step written as a checkpoint. Returns that step;
  /// none if an update of the step that failed had begun. Lets through what the sink throws.
  std::optional<int64_t> save_last_step();

 private:
  int64_t steps_done() const { return computation_.steps_done(); }
  bool is_due(int64_t every) const { return every > 0 && steps_done() % every == 0; }
  void do_what_is_due();
  void settle();
  void checkpoint();
  bool was_tested() const;
  void test();

  WorkerComputation& computation_;
  const PreparedData& test_;
  RunSink& sink_;
  Log& log_;
  int64_t settled_step_ = -1, tested_step_ = -1;
};

}  // namespace poseidon::trainer
