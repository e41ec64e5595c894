#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/report/metrics.h"
#include "trainer/report/run_directory.h"
#include "trainer/report/run_history.h"

namespace poseidon::trainer {

/// State of a run at its end, for summary.json.
struct RunEnd {
  int64_t first_step = 0;    ///< number of steps done before this session
  int64_t steps = 0;         ///< number of steps done, up to the last checkpoint
  int64_t steps_of_job = 0;  ///< number of steps of the whole job
  double wall_seconds = 0;   ///< duration of this session
  std::string device = {};   ///< devices of the workers, from names_of()
  int64_t servers = 0;
  int64_t threads = 1;                        ///< compute threads of a worker
  double bytes_sent = 0, bytes_received = 0;  ///< payload, mean over the nodes
  std::string weights_sha256 = {}, state_sha256 = {};
  std::filesystem::path checkpoint = {};  ///< last checkpoint
};

/// A repeated step or test has another result than before.
class ReplayDiffers final : public RunError {
 public:
  using RunError::RunError;
};

/// Reports a run: metrics during the run, and the summary at its end. Used by one thread.
class RunReport {
 public:
  /// `directory` and `console` must outlive this object.
  RunReport(const RunDirectory& directory, Metrics::Options options, Console& console);

  /// Adds a trained step or a test to the metrics. `last`: the run ends with this step, so its line
  /// is always written. A repeated step or test is not written again. Throws ReplayDiffers if the
  /// last step or test is repeated with another result.
  void trained(const StepReport& report, bool last);
  void tested(int64_t step, const TestResult& result);
  /// Discards the reports of steps after `step`, because the run will repeat these steps.
  void forget_after(int64_t step);
  /// Records `events`: all node failures and joins in this session so far, from
  /// ViewRecords::events().
  void note_events(const Json& events) { history_.note_events(events); }
  /// Completes the metrics and the history when the run has ended after `steps` steps, possibly
  /// before its planned last step. `failure`: why the run failed; "": it did not.
  void end(int64_t steps, const std::string& failure);
  /// Adds all sessions of the run to the summary of this session.
  void add_sessions(Json& summary) const { history_.add_to(summary); }

  /// The last step that was trained in this session, counted from 1; 0 before the first, and after
  /// forget_after() has discarded it.
  int64_t last_step() const { return last_report_.step; }
  Json summary(const Job& job, const RunEnd& end) const;

 private:
  void check_again(const StepReport& report) const;
  Json tested(const std::string& key) const;
  Json trained_loss() const;

  const RunDirectory& directory_;
  const ScalarKeys test_scalars_;
  const int64_t steps_;  ///< of the whole job
  Metrics metrics_;
  RunHistory history_;
  StepReport last_report_;
  std::optional<TestResult> last_test_;
  int64_t tested_step_ = 0;
};

}  // namespace poseidon::trainer
