#pragma once

#include <memory>
#include <vector>

#include "core/trace.h"
#include "trainer/member/checkpoint_sender.h"
#include "trainer/member/exit_watchdog.h"
#include "trainer/member/member_job.h"
#include "trainer/member/progress.h"
#include "trainer/member/report_log.h"
#include "trainer/member/worker_session.h"
#include "trainer/member/worker_view.h"
#include "trainer/run/run_loop.h"

namespace poseidon::trainer {

/// The training of a worker in a job with several workers, once the plan is known. It builds the
/// net, makes the steps, and reports to the coordinator. Used by the compute thread.
class WorkerTraining final : public RunSink {
 public:
  /// The objects through which the training reports. They must outlive the WorkerTraining.
  struct Reports {
    WorkerSession& session;
    ReportLog& sent;
    ProgressReporter& progress;
    CheckpointSender& sender;
    StopTimeout& grace;
    Log& log;
  };
  /// Builds the net. `job` must outlive this object. Throws ConfigError, RunError.
  WorkerTraining(const PreparedJob& job, const PublishedPlan& published, const Reports& reports);

  /// Sends the list of its tensors to the coordinator, which then sends the initial values.
  void announce();
  /// Sets tensor `index` to its initial values, which have arrived. Other tensors may still be in
  /// flight.
  void take_value(int64_t index);
  /// Call it when all initial values of the view are set. Connects the receiver of
  /// peers' frames (WorkerPayload) to the view's exchange, and connects to the peers.
  void begin_with_values();
  /// Makes all steps and the final reports. Throws JobFailed if the job has failed.
  void train();

  // For the next view of the job.
  int64_t last_complete_step() const { return computation_->last_complete_step(); }
  int64_t earliest_revertible_step() const { return computation_->earliest_revertible_step(); }
  /// Reverts to the step after which the next view begins, and prepares for the plan of that view.
  /// train() then makes the steps of the view. If the view begins from a checkpoint, or this worker
  /// lacks values, the values arrive like initial values. Throws ConfigError, RunError.
  void go_on(const PublishedPlan& published);

  /// After a failure that ends the job: reverts to the last complete step, and returns its number.
  int64_t stop_computing();
  /// Sends the checkpoint of `step`, unless it was sent last. Worker 0 sends the periodic
  /// checkpoints, and those for joiners. After a failure the coordinator may request a checkpoint
  /// from any worker. Throws JobFailed if the checkpoint is no longer needed, RunError for
  /// non-finite values.
  void send_checkpoint(int64_t step);
  void report_traffic_and_trace();
  /// Number of steps that the run had done when this worker began to take part.
  int64_t first_step() const { return first_step_; }
  const RunTensors& tensors() const { return computation_->tensors(); }
  RunState state_after(int64_t step) const { return computation_->state_after(step); }

 private:
  bool begin(int64_t done) override;
  void trained(StepReport report) override;
  void draining() override { reports_.progress.report_activity("comparing replicas"); }
  void drained(int64_t step) override;
  void checkpoint(int64_t step) override;
  bool testing(int64_t done, int64_t of) override;
  void tested(int64_t step, const TestSums& sums) override;
  bool halted() override { return view_->limit.halted(); }

  std::shared_ptr<WorkerView> make_view(const PublishedPlan& published);
  WorkerPart part() const;
  void compare_rotating_digests(int64_t step) const;

  const PreparedJob& job_;
  const Reports reports_;
  int64_t first_step_;
  int64_t drained_step_ = -1;             ///< the last step after which all tensors were compared
  std::unique_ptr<TraceRecorder> trace_;  ///< only with --trace
  std::shared_ptr<WorkerView> view_;
  std::unique_ptr<WorkerComputation> computation_;
  std::shared_ptr<TensorStore> values_;  ///< initial values from the coordinator
  bool has_values_ = false;              ///< all initial values are set
};

}  // namespace poseidon::trainer
