#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/plan/shard_assignment.h"
#include "comm/wire/messages.h"
#include "trainer/job/job.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Makes a job's plan from measurements, after the workers have timed their layers. The schemes may
/// depend on the times of the slowest worker and on the link rate. The link rate is measured too,
/// unless the job sets it. The assignment of logical shards may also depend on the times.
class MeasuredPlan {
 public:
  /// Requires wanted(). `resumed` may be null, and is not stored. Throws ConfigError.
  MeasuredPlan(const Job& job, const Checkpoint* resumed, bool replan);

  /// Whether a run has to measure: it plans by time or by speed, and has no earlier plan to keep.
  static bool wanted(const Job& job, const Checkpoint* resumed, bool replan);

  /// A plan for the same workers and servers, for use before make(). If shards are assigned by
  /// speed, worker 0 has the largest possible number of shards. Each other worker has one shard per
  /// device.
  comm::Plan provisional() const;
  bool needs_link_rate() const { return wants_link_; }
  void set_link(const comm::LinkRate& rate) { link_ = rate; }
  /// `worker` is a rank.
  void add_times(uint16_t worker, LayerTimes times) { times_[worker] = std::move(times); }
  /// Copies the measurements of another plan, which will not be made.
  void take_measurements(const MeasuredPlan& other);
  /// Drops the times of this rank, which now belongs to another worker.
  void forget(uint16_t worker) { times_.erase(worker); }
  /// Throws ConfigError for missing or invalid times.
  comm::Plan make();
  /// One line about the assignment by speed; "" without one.
  const std::string& dealt() const { return dealt_; }

 private:
  void add_link(double threads);
  void assign_by_speed();
  void add_longest_times();

  const double limit_mbps_;
  comm::PlanRequest request_;
  const std::optional<comm::Plan> earlier_;  ///< the plan of the job or checkpoint, if any
  const bool by_time_, by_speed_;  ///< whether measurements decide the schemes; the assignment
  const bool wants_link_;
  std::optional<comm::LinkRate> link_;    ///< measured
  std::map<uint16_t, LayerTimes> times_;  ///< by rank
  std::string dealt_;
};

}  // namespace poseidon::trainer
