#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/coordinator/acknowledger.h"
#include "trainer/coordinator/cluster_checkpoints.h"
#include "trainer/coordinator/cluster_report.h"
#include "trainer/coordinator/cluster_trace.h"
#include "trainer/coordinator/first_values.h"
#include "trainer/coordinator/kept_reports.h"
#include "trainer/coordinator/run_plan.h"
#include "trainer/coordinator/view_records.h"
#include "trainer/messages/notes.h"
#include "trainer/report/console.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

/// What is recorded of a run on several workers: notes and checkpoints of its members become files,
/// and lines for the user. It lives in the main thread, but for what says otherwise.
class ClusterRecords {
 public:
  /// Of a run that begins with `resumed`, or anew where that is null. All must outlive it.
  ClusterRecords(const Job& job, const RunOptions& options, RunDirectory& directory,
                 CoordinatorIo& io, Console& console, std::shared_ptr<const Checkpoint> resumed);

  /// The plan is decided. `kept`: reports to an earlier coordinator of this run.
  void begin(DecidedPlan decided, const std::vector<KeptReports>& kept);
  /// The first step of a view is under way.
  void started(ViewRecords::Clock::time_point when, const std::vector<comm::RosterEntry>& members);
  /// Reads the checkpoint that all go back to, and tells the I/O thread which it is.
  void restore();
  /// The others go on by this plan.
  void go_on(const NextView& next);
  void take_note(comm::NodeId node, const comm::Note& note);
  void take_checkpoint(uint16_t worker, int64_t step, const std::shared_ptr<TensorStore>& tensors,
                       const SentCheckpoint& sent);
  /// What a worker has kept is from now on a checkpoint like others, and the run begins with it.
  void take_kept_step(uint16_t worker, const RunState& state, TensorStore& tensors,
                      const SentCheckpoint& sent);
  void agreed(int64_t step, const std::vector<int64_t>& digest);
  /// The job has failed, and survivors may send what they have.
  void lost(const comm::Loss& loss);

  bool has_started() const { return started_; }
  /// Counted from 1, the step that not all workers have reported; 0 before the first.
  int64_t step_under_way() const;
  /// What the run has come to. `failure`: why it failed, "" where it has not.
  struct Results {
    Json summary, traffic;
  };
  /// Ends the session: no more steps will be reported.
  Results results(double wall_seconds, const std::string& failure);
  /// Writes them, with the trace.
  void write(const Results& results);

  /// Null where the run begins anew, and from the first values on.
  const Checkpoint* resumed() const { return resumed_.get(); }
  /// Valid once the plan is decided; that of the last view.
  const PublishedPlan& published() const { return decided_.published; }
  ViewRecords& views() { return views_; }
  Console& console() { return console_; }
  ClusterTrace& trace() { return trace_; }
  ClusterCheckpoints& checkpoints() { return checkpoints_; }

 private:
  void take(comm::NodeId worker, const TensorsNote& note);
  void take(comm::NodeId worker, const ClassesNote& note);
  void take(comm::NodeId worker, int64_t step, const StepNote& note);
  void make_first_values(const Json& list);
  void write_checkpoints(const std::function<void()>& action);

  const Job& job_;
  const RunOptions& options_;
  RunDirectory& directory_;
  CoordinatorIo& io_;
  Console& console_;
  std::shared_ptr<const Checkpoint> resumed_;  ///< until first values are made of it
  DecidedPlan decided_;
  std::optional<Schedule> schedule_;  ///< from the plan on, as the next
  std::optional<ClusterReport> report_;
  ViewRecords views_;
  int64_t first_step_ = 0;  ///< of the run
  int64_t sum_steps_ = 0;   ///< that workers may have room for
  FirstValues values_;
  net::Choices choices_;  ///< of the nets on the job's kind of device, all alike
  int64_t threads_ = 0;   ///< of a worker
  ClusterCheckpoints checkpoints_;
  ClusterTrace trace_;
  bool started_ = false, lost_ = false;
  Acknowledger acknowledger_{io_};
};

}  // namespace poseidon::trainer
