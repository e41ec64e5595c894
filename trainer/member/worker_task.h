#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/member/checkpoint_sender.h"
#include "trainer/member/end_watch.h"
#include "trainer/member/last_step.h"
#include "trainer/member/member_job.h"
#include "trainer/member/progress.h"
#include "trainer/member/report_log.h"
#include "trainer/member/worker_training.h"

namespace poseidon::trainer {

class WorkerSession;

/// What a worker does in one job, from opening its data to its end. It lives in the main thread,
/// which computes; WorkerSession posts its calls, in the order in which the coordinator asks for
/// them. What goes wrong here is this worker's own error: all others hear of it.
class WorkerTask {
 public:
  /// All must outlive it.
  WorkerTask(const MemberOptions& options, WorkerSession& session, Log& log);

  /// How it ended, once it has.
  const std::optional<MemberEnd>& end() const { return end_; }

  void prepare(uint16_t rank, const Json& job);
  /// The coordinator asks for the step that this worker keeps; or, while the job runs, for the one
  /// that a view begins behind, for those who join.
  void give_step(int64_t step);
  /// The plan of a view, in which this worker has that rank.
  void build(const comm::Planned& planned, uint16_t rank);
  void take_value(int64_t index);
  void begin_with_values();
  void train();
  /// A member is lost, or others join, and the job goes on in another view.
  void leave_view(const comm::Loss& loss);
  /// The job has failed; `alone`: and the coordinator is gone.
  void end_after(const comm::Loss& loss, bool alone);
  /// The coordinator asks a survivor for its last complete step.
  void save(int64_t step);
  void dismissed();
  void over(MemberEnd end);
  /// This worker has drifted: it takes no part in `job` again.
  void avoid(const comm::JobId& job) { *options_.avoided = job; }

  // From any thread.
  /// Where its own header says so.
  CheckpointSender& sender() { return sender_; }
  /// Those that the coordinator has not acknowledged.
  ReportLog& reports() { return reports_; }
  /// Ends the process where this thread does not come to an end; `why` says what has not ended.
  void must_end_soon(const char* why) { end_watch_.expect(grace_.period(), why); }

 private:
  template <class Action>
  void guarded(Action action);
  void open_data_sets();
  void offer_kept_step();
  void give_kept_step(int64_t step);
  void keep_last_step();
  void build_ahead();
  void report_prepared();
  void make_training(const Json& plan);

  const MemberOptions& options_;
  WorkerSession& session_;
  Log& log_;
  EndWatch end_watch_;  ///< over when all else is
  ComputingGrace grace_;
  ProgressReporter progress_;
  CheckpointSender sender_;
  LastStep last_step_;
  ReportLog reports_;
  PreparedJob job_;
  std::unique_ptr<WorkerTraining> training_;  ///< from the plan on
  bool began_ = false;                        ///< the first step
  int64_t stopped_step_ = 0;                  ///< after a loss, the last complete one
  std::optional<comm::Loss> loss_;
  std::optional<MemberEnd> end_;
};

}  // namespace poseidon::trainer
