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

/// Where a run stands at its end, for summary.json.
struct RunEnd {
  int64_t first_step = 0;    ///< steps done before it
  int64_t steps = 0;         ///< steps done
  int64_t steps_of_job = 0;  ///< that would be all
  double wall_seconds = 0;   ///< that it took
  std::string device = {};   ///< the kinds that computed
  int64_t servers = 0;
  int64_t threads = 1;                        ///< of a worker
  double bytes_sent = 0, bytes_received = 0;  ///< payload, in the mean of the nodes
  std::string weights_sha256 = {}, state_sha256 = {};
  std::filesystem::path checkpoint = {};  ///< the last one
};

/// A step that was made again has come to something else.
class ReplayDiffers final : public RunError {
 public:
  using RunError::RunError;
};

/// What a run has come to: its metrics while it goes on, its summary at the end. Used by one
/// thread.
class RunReport {
 public:
  /// `directory` and `console` must outlive it.
  RunReport(const RunDirectory& directory, Metrics::Options options, Console& console);

  /// `last`: the run ends here, so the step is written whatever its number. One that was reported
  /// before, and was made again, is not written twice; throws ReplayDiffers where it has come to
  /// another loss, or test.
  void trained(const StepReport& report, bool last);
  void tested(int64_t step, const TestResult& result);
  /// What was reported of later steps does not count, and is reported anew.
  void forget_after(int64_t step);
  /// What has happened to the nodes of the session so far, as ViewRecords::write_to() has it.
  void note_events(const Json& events) { history_.note_events(events); }
  /// The run has ended after `steps` steps, maybe before the one that was to be its last. `failure`
  /// says why it failed; "" where it has not.
  void end(int64_t steps, const std::string& failure);
  /// Adds all sessions of the run to its summary.
  void add_sessions(Json& summary) const { history_.add_to(summary); }

  /// The last step that was trained in this run, counted from 1; 0 before the first.
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
