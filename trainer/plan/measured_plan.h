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

/// Makes a job's plan from measurements, after the workers have timed their layers. The schemes can
/// depend on the longest time of each layer on any worker, and on the link rate. The link rate is
/// measured unless the job sets it. The assignment of logical shards can depend on the workers'
/// times.
class MeasuredPlan {
 public:
  /// Requires wanted(). `resumed` is the checkpoint from which the run continues, or null. It need
  /// not outlive this object. `replan`: ignore the checkpoint's plan. Throws ConfigError.
  MeasuredPlan(const Job& job, const Checkpoint* resumed, bool replan);

  /// Whether the plan of a run needs measurements: the job has several workers, it sets schemes by
  /// time or shards by speed, and no earlier plan determines these.
  static bool wanted(const Job& job, const Checkpoint* resumed, bool replan);

  /// A plan for the job's workers and servers, for use before make(). It selects schemes by bytes
  /// where make() selects them by time. If shards are assigned by speed, worker 0 has as many
  /// shards as possible. Each other worker has one shard per device.
  comm::Plan provisional() const;
  bool needs_link_rate() const { return wants_link_; }
  void set_link(const comm::LinkRate& rate) { link_ = rate; }
  /// `worker` is a rank.
  void add_times(uint16_t worker, LayerTimes times) { times_[worker] = std::move(times); }
  /// Copies the measurements of `other`. This object replaces `other`.
  void take_measurements(const MeasuredPlan& other);
  /// Drops the times of this rank, which now belongs to another worker.
  void forget(uint16_t worker) { times_.erase(worker); }
  /// Makes the plan from the measurements. Throws ConfigError for missing or invalid times.
  comm::Plan make();
  /// One line about the assignment by speed; "" if shards are not assigned by speed.
  const std::string& dealt() const { return dealt_; }

 private:
  void add_link(double threads);
  void assign_by_speed();
  void add_longest_times();

  const double limit_mbps_;
  comm::PlanRequest request_;
  const std::optional<comm::Plan> earlier_;  ///< from earlier_plan()
  /// Whether measurements determine the schemes (`by_time_`) and the shards of workers
  /// (`by_speed_`).
  const bool by_time_, by_speed_;
  const bool wants_link_;
  std::optional<comm::LinkRate> link_;    ///< measured
  std::map<uint16_t, LayerTimes> times_;  ///< by rank
  std::string dealt_;
};

}  // namespace poseidon::trainer
