#pragma once

#include <memory>
#include <vector>

#include "core/trace.h"
#include "trainer/member/checkpoint_sender.h"
#include "trainer/member/end_watch.h"
#include "trainer/member/member_job.h"
#include "trainer/member/progress.h"
#include "trainer/member/report_log.h"
#include "trainer/member/worker_session.h"
#include "trainer/member/worker_view.h"
#include "trainer/run/run_loop.h"

namespace poseidon::trainer {

/// One worker of several from its net to its last step, when the plan is known: what comes of its
/// steps goes to the coordinator. It lives in the compute thread.
class WorkerTraining final : public RunSink {
 public:
  /// What it reports by, all of which must outlive it.
  struct Reports {
    WorkerSession& session;
    ReportLog& sent;
    ProgressReporter& progress;
    CheckpointSender& sender;
    ComputingGrace& grace;
    Log& log;
  };
  /// Builds the net. `job` must outlive it. Throws ConfigError, RunError.
  WorkerTraining(const PreparedJob& job, const PublishedPlan& published, const Reports& reports);

  /// Says what a net it has, and expects first values.
  void announce();
  /// The first values of a tensor are there, others may be on their way.
  void take_value(int64_t index);
  /// The values are those that the first step of the view begins with: it meets its peers.
  void begin_with_values();
  /// All steps, and what is reported at their end. Throws JobLost when the job has failed.
  void train();

  // The job goes on in another view, without a member that is lost.
  int64_t last_complete_step() const { return computation_->last_complete_step(); }
  int64_t least_complete_step() const { return computation_->least_complete_step(); }
  /// Goes back to the step that the plan of the next view begins behind, and prepares to go on from
  /// there; train() then does. Where that is the step of a checkpoint, first values come as in the
  /// beginning. Throws ConfigError, RunError.
  void go_on(const PublishedPlan& published);

  // After a loss by which the job fails.
  /// Ceases to compute: goes back to the last complete step, and returns it.
  int64_t cease();
  /// As worker 0 does regularly, also for those who join, and after a loss whoever is asked. Throws
  /// JobLost when nobody waits for it any more, RunError for values that are not finite.
  void send_checkpoint(int64_t step);
  void report_traffic_and_trace();
  /// Of the run, as far as it has been with it.
  int64_t first_step() const { return first_step_; }
  const RunTensors& tensors() const { return computation_->tensors(); }
  RunState state_after(int64_t step) const { return computation_->state_after(step); }

 private:
  bool begin(int64_t done) override;
  void trained(StepReport report) override;
  void settling() override { reports_.progress.sign("comparing replicas"); }
  void settled(int64_t step) override;
  void checkpoint(int64_t step) override;
  bool testing(int64_t done, int64_t of) override;
  void tested(int64_t step, const TestSums& sums) override;
  bool halted() override { return view_->limit.halted(); }

  std::shared_ptr<WorkerView> make_view(const PublishedPlan& published);
  WorkerPart part() const;
  void compare_in_turn(int64_t step) const;

  const PreparedJob& job_;
  const Reports reports_;
  int64_t first_step_;
  int64_t settled_step_ = -1;             ///< after which all tensors were compared last
  std::unique_ptr<TraceRecorder> trace_;  ///< only with --trace
  std::shared_ptr<WorkerView> view_;
  std::unique_ptr<WorkerComputation> computation_;
  std::shared_ptr<TensorStore> values_;  ///< first values that the coordinator sends
  bool has_values_ = false;              ///< they have come
};

}  // namespace poseidon::trainer
