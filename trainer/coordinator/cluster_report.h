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
  /// Stores the value of `worker`. Returns whether the values of all workers are present now.
  bool add(uint16_t worker, Part part) {
    parts_[worker] = std::move(part);
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const std::optional<Part>& each) { return each.has_value(); });
  }
  const std::vector<std::optional<Part>>& parts() const { return parts_; }

 private:
  std::vector<std::optional<Part>> parts_;
};

/// Combines the members' reports into metrics during the run, and into tables at its end.
class ClusterReport {
 public:
  /// `plan` must outlive this object.
  ClusterReport(const comm::Plan& plan, const RunDirectory& directory,
                const Metrics::Options& metrics, Console& console);

  // The next functions receive the content of notes from members. They throw ConfigError if it does
  // not fit the plan or the earlier reports.
  /// Adds a worker's report of its next step. Returns true if all workers have now reported this
  /// step. The step is then in the metrics. `last_step`: last step of the run.
  bool take_step(uint16_t worker, int64_t step, const StepNote& note, int64_t last_step);
  void take_test(uint16_t worker, int64_t step, const TestNote& note);
  void take_traffic(comm::NodeId node, const TrafficNote& note);

  /// Begins the next view, after `first_step` steps. The caller has already changed the
  /// constructor's `plan` to the plan of this view. Restarts the sums of times and bytes, and drops
  /// the steps and tests that only some workers have reported.
  void begin_view(int64_t first_step);

  /// Discards the reports of steps after `step`. The members repeat these steps, and the values may
  /// differ.
  void forget_after(int64_t step) { run_.forget_after(step); }

  // The next functions call those of RunReport with the same names.
  void note_events(const Json& events) { run_.note_events(events); }
  void end(int64_t steps, const std::string& failure) { run_.end(steps, failure); }
  void add_sessions(Json& summary) const { run_.add_sessions(summary); }

  /// The last step of this session that all workers have reported; 0: none, or discarded by
  /// forget_after().
  int64_t last_step() const { return run_.last_step(); }
  /// Content of traffic.json for `steps` steps. "unheard" lists nodes that have not reported, for
  /// example failed ones.
  Json traffic(int64_t steps) const;
  /// A warning if wire format "int8" has rounded more than 1 % of the gradients' blocks coarsely,
  /// or any block was beyond its range; "" if not.
  std::string rounding_warning() const;
  /// Content of summary.json. `end` is the state at the end of the run. `traffic` is the result of
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
  comm::BlockCounts rounded_;                    ///< over all layers and nodes
  std::set<comm::NodeId> heard_;                 ///< nodes whose bytes `bytes_of_layer_` includes
};

}  // namespace poseidon::trainer
