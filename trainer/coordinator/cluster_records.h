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
#include "trainer/coordinator/run_plan.h"
#include "trainer/coordinator/saved_reports.h"
#include "trainer/coordinator/view_records.h"
#include "trainer/messages/notes.h"
#include "trainer/report/console.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

/// Records a run on several workers. Writes the notes and checkpoints of the members to files, and
/// messages to the console. Lives in the main thread.
class ClusterRecords {
 public:
  /// The run continues from `resumed`; null: it starts from the beginning. The references must
  /// outlive this object.
  ClusterRecords(const Job& job, const RunOptions& options, RunDirectory& directory,
                 CoordinatorIo& io, Console& console, std::shared_ptr<const Checkpoint> resumed);

  /// Call it when the plan is decided. Logs the warnings that follow from the plan, and begins the
  /// metrics. Completes metrics.jsonl from `kept`: reports that workers have sent to an earlier
  /// coordinator of this run. That coordinator may not have recorded them.
  void begin(DecidedPlan decided, const std::vector<SavedReports>& kept);
  /// Records that all members of a view are ready, and that the view's first step has started at
  /// `when`. Frees the initial values.
  void started(ViewRecords::Clock::time_point when, const std::vector<comm::RosterEntry>& members);
  /// Reads the checkpoint to which all members go back, and sends its step to the I/O thread. The
  /// step is 0 if the job restarts from its initial values.
  void restore();
  /// Begins the records of the next view. If the job has gone back to a checkpoint, discards the
  /// reports of later steps.
  void go_on(const NextView& next);
  void take_note(comm::NodeId node, const comm::Note& note);
  void take_checkpoint(uint16_t worker, int64_t step, const std::shared_ptr<TensorStore>& tensors,
                       const SentCheckpoint& sent);
  /// Writes a worker's in-memory checkpoint to a file. The run then continues from this checkpoint.
  void write_memory_checkpoint(uint16_t worker, const RunState& state, TensorStore& tensors,
                               const SentCheckpoint& sent);
  void agreed(int64_t step, const std::vector<int64_t>& digest);
  /// Records that the job has failed. From now on, a survivor's checkpoint is written without the
  /// agreement of other workers, unless replicas have diverged.
  void node_failed(const comm::NodeFailure& node_failure);

  bool has_started() const { return started_; }
  /// The first step that not all workers have reported, counted from 1; 0 before the training
  /// begins.
  int64_t step_under_way() const;
  /// Content of summary.json and traffic.json.
  struct Results {
    Json summary, traffic;
  };
  /// Ends the session: no more steps will be reported. `failure`: the reason why the run failed, or
  /// "".
  Results results(double wall_seconds, const std::string& failure);
  /// Writes the results, then the trace. Only warns if a file cannot be written.
  void write(const Results& results);

  /// The checkpoint from which the run continues. Null if the run starts from the beginning, and
  /// after the initial values are made.
  const Checkpoint* resumed() const { return resumed_.get(); }
  /// The plan of the current view. Valid once the plan is decided.
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
  std::shared_ptr<const Checkpoint> resumed_;  ///< null as resumed() states
  DecidedPlan decided_;
  std::optional<Schedule> schedule_;  ///< begin() sets schedule_ and report_
  std::optional<ClusterReport> report_;
  ViewRecords views_;
  int64_t first_step_ = 0;  ///< number of steps done before this session
  int64_t sum_steps_ = 0;   ///< number of steps whose sums the workers can store
  FirstValues values_;
  net::Choices choices_;  ///< by layer; all nets on the job's kind of device use them
  int64_t threads_ = 0;   ///< compute threads of one worker
  ClusterCheckpoints checkpoints_;
  ClusterTrace trace_;
  bool started_ = false, node_has_failed_ = false;
  Acknowledger acknowledger_{io_};
};

}  // namespace poseidon::trainer
