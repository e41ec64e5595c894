#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "comm/plan/traffic.h"
#include "core/json.h"
#include "trainer/messages/step_message.h"
#include "trainer/report/run_report.h"
#include "trainer/step/evaluation.h"

namespace poseidon::trainer {

/// Collects one value from each worker.
template <class Part>
class Gathered {
 public:
  explicit Gathered(size_t workers) : parts_(workers) {}
  /// Returns whether the values of all workers are present now.
  bool add(uint16_t worker, Part part) {
    parts_[worker] = std::move(part);
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const std::optional<Part>& each) { return each.has_value(); });
  }
  const std::vector<std::optional<Part>>& parts() const { return parts_; }

 private:
  std::vector<std::optional<Part>> parts_;
};

/// Combines the members' reports: metrics during the run, and tables at its end.
class ClusterReport {
 public:
  /// `plan` must outlive it.
  ClusterReport(const comm::Plan& plan, const RunDirectory& directory,
                const Metrics::Options& metrics, Console& console);

  // Notes of members. All throw ConfigError if the note does not fit the plan or the run so far.
  /// Returns whether all workers have reported this step now. `last_step`: last step of the run.
  bool take_step(uint16_t worker, int64_t step, const StepNote& note, int64_t last_step);
  void take_test(uint16_t worker, int64_t step, const TestNote& note);
  void take_traffic(comm::NodeId node, const TrafficNote& note);

  /// The caller has changed `plan` to that of the next view, which continues after `first_step`
  /// steps. Restarts the counts of times and bytes.
  void begin_view(int64_t first_step);

  /// Discards the reports of steps after `step`: the members repeat these steps with other values.
  void forget_after(int64_t step) { run_.forget_after(step); }

  // See the functions of RunReport.
  void note_events(const Json& events) { run_.note_events(events); }
  void end(int64_t steps, const std::string& failure) { run_.end(steps, failure); }
  void add_sessions(Json& summary) const { run_.add_sessions(summary); }

  /// The last step that all workers have reported; 0: none.
  int64_t last_step() const { return run_.last_step(); }
  /// traffic.json of a run of `steps` steps. Nodes that have not reported, for example failed ones,
  /// are listed as "unheard".
  Json traffic(int64_t steps) const;
  /// summary.json of a run that ended with `end`. The bytes are from `traffic`, the result of
  /// traffic().
  Json summary(const Job& job, RunEnd end, const Json& traffic) const;

 private:
  template <class Part>
  Gathered<Part>& gathered_of(std::map<int64_t, Gathered<Part>>& all, int64_t step);
  static void check_scalars(uint16_t worker, const SampleSums& sums, size_t expected);
  Json layers(const Json& traffic) const;
  size_t workers() const { return static_cast<size_t>(plan_.workers()); }

  const comm::Plan& plan_;
  RunReport run_;
  TimeTable times_;
  std::vector<int64_t> reported_;        ///< by worker: its last reported step
  const size_t scalars_, test_scalars_;  ///< number of scalars per sample
  std::map<int64_t, Gathered<WorkerStep>> steps_;
  std::map<int64_t, Gathered<TestSums>> tests_;
  std::vector<comm::NodeBytes> bytes_of_layer_;  ///< over all nodes
  std::set<comm::NodeId> heard_;                 ///< nodes whose bytes are included
};

}  // namespace poseidon::trainer
