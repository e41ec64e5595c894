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

/// One thing of all workers, as it comes in.
template <class Part>
class Gathered {
 public:
  explicit Gathered(size_t workers) : parts_(workers) {}
  /// Whether all are there now.
  bool add(uint16_t worker, Part part) {
    parts_[worker] = std::move(part);
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const std::optional<Part>& each) { return each.has_value(); });
  }
  const std::vector<std::optional<Part>>& parts() const { return parts_; }

 private:
  std::vector<std::optional<Part>> parts_;
};

/// What the members of a job report of it, and what it comes to: metrics while it runs, tables at
/// its end.
class ClusterReport {
 public:
  /// `plan` must outlive it.
  ClusterReport(const comm::Plan& plan, const RunDirectory& directory,
                const Metrics::Options& metrics, Console& console);

  // Notes of members. All throw ConfigError for what does not fit the plan or the run so far.
  /// Whether all workers have reported this step now. `last_step`: of the run.
  bool take_step(uint16_t worker, int64_t step, const StepNote& note, int64_t last_step);
  void take_test(uint16_t worker, int64_t step, const TestNote& note);
  void take_traffic(comm::NodeId node, const TrafficNote& note);

  /// The plan is that of another view now, which goes on after `first_step` steps. Times and bytes
  /// are those of the view from here on.
  void begin_view(int64_t first_step);

  /// What was reported of later steps does not count: they are made again, to other values.
  void forget_after(int64_t step) { run_.forget_after(step); }

  // As those of RunReport.
  void note_events(const Json& events) { run_.note_events(events); }
  void end(int64_t steps, const std::string& failure) { run_.end(steps, failure); }
  void add_sessions(Json& summary) const { run_.add_sessions(summary); }

  /// The last step that all workers have reported; 0: none.
  int64_t last_step() const { return run_.last_step(); }
  /// traffic.json of a run of `steps` steps. Nodes that have not reported, as after a loss, are
  /// listed as "unheard".
  Json traffic(int64_t steps) const;
  /// summary.json of a run that came to `end`, but for its bytes; `traffic` as traffic() made it.
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
  std::vector<int64_t> reported_;        ///< by worker: the last step that it has reported
  const size_t scalars_, test_scalars_;  ///< of a sample
  std::map<int64_t, Gathered<WorkerStep>> steps_;
  std::map<int64_t, Gathered<TestSums>> tests_;
  std::vector<comm::NodeBytes> bytes_of_layer_;  ///< over all nodes
  std::set<comm::NodeId> heard_;                 ///< whose bytes are in it
};

}  // namespace poseidon::trainer
