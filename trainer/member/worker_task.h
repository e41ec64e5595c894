#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/member/checkpoint_sender.h"
#include "trainer/member/exit_watchdog.h"
#include "trainer/member/last_step_saver.h"
#include "trainer/member/member_job.h"
#include "trainer/member/progress.h"
#include "trainer/member/report_log.h"
#include "trainer/member/worker_training.h"

namespace poseidon::trainer {

class WorkerSession;

/// A worker's work in one job, from opening the data to the end of the job. Used by the main
/// thread, which is the compute thread, except where noted. WorkerSession posts the calls to that
/// thread in the order of the coordinator's requests. An exception is reported to the coordinator
/// as this worker's error.
class WorkerTask {
 public:
  /// All arguments must outlive this object.
  WorkerTask(const MemberOptions& options, WorkerSession& session, Log& log);

  /// The outcome for this worker; nullopt until its work in the job has ended.
  const std::optional<MemberEnd>& end() const { return end_; }

  void prepare(uint16_t rank, const Json& job);
  /// Sends the checkpoint of a step to the coordinator. Before the plan is made, sends the worker's
  /// in-memory checkpoint. In a running job, sends the current values, with which the joiners
  /// begin.
  void send_step(int64_t step);
  /// Prepares for the plan of a view, in which this worker has rank `rank`. Builds the net; if it
  /// exists, reverts to the step after which the view begins.
  void build(const comm::Planned& planned, uint16_t rank);
  void take_value(int64_t index);
  void begin_with_values();
  void train();
  /// Leaves the view, because a member has failed or nodes join. Reports the last complete step,
  /// and the earliest step to which this worker can revert.
  void leave_view(const comm::NodeFailure& node_failure);
  /// Stops computing after the job has failed, and reverts to the last complete step. Reports this
  /// step to the coordinator. `alone`: the coordinator has failed too. The worker then stores the
  /// step (LastStepSaver) and leaves the job.
  void end_after(const comm::NodeFailure& node_failure, bool alone);
  /// Sends the checkpoint of `step` to the coordinator, or reports why it cannot be sent. The
  /// coordinator requests it after the job has failed. `step` is the last step that this worker has
  /// completed.
  void save(int64_t step);
  void dismissed();
  void over(MemberEnd end);
  /// Prevents this worker from joining `job` again, because its replica has diverged.
  void avoid(const comm::JobId& job) { *options_.avoided = job; }

  // Called by any thread.
  /// Other threads may call only some functions of the sender; see CheckpointSender.
  CheckpointSender& sender() { return sender_; }
  /// The reports that the coordinator has not acknowledged.
  ReportLog& reports() { return reports_; }
  /// Ends the process if the main thread does not end in time; `why` is the reason in the message.
  void start_exit_timeout(const char* why) { exit_watchdog_.arm(stop_timeout_.period(), why); }

 private:
  template <class Action>
  void guarded(Action action);
  void open_data_sets();
  void offer_checkpoint();
  void send_memory_checkpoint(int64_t step);
  void keep_last_step();
  void build_ahead();
  void report_prepared();
  void make_training(const Json& plan);

  const MemberOptions& options_;
  WorkerSession& session_;
  Log& log_;
  ExitWatchdog exit_watchdog_;  ///< destroyed after the data members that it watches
  StopTimeout stop_timeout_;
  ProgressReporter progress_;
  CheckpointSender sender_;
  LastStepSaver last_step_;
  ReportLog reports_;
  PreparedJob job_;
  std::unique_ptr<WorkerTraining> training_;  ///< null until the plan is known
  bool began_ = false;                        ///< the first step has begun
  int64_t stopped_step_ = 0;                  ///< after a failure: the last complete step
  std::optional<comm::NodeFailure> node_failure_;
  std::optional<MemberEnd> end_;
};

}  // namespace poseidon::trainer
