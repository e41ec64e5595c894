#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/plan/dealing.h"
#include "comm/plan/plan.h"
#include "comm/wire/messages.h"
#include "trainer/job/job.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// The plan of a job that decides by what is measured: made when its workers have timed their
/// layers. Schemes may depend on it, and on the network between the workers, which is measured too
/// unless the job says it; the slowest count. So may who has how many logical shards.
class MeasuredPlan {
 public:
  /// Where wanted(). `resumed` may be null, and is not kept. Throws ConfigError.
  MeasuredPlan(const Job& job, const Checkpoint* resumed, bool replan);

  /// Whether a run has to measure: it decides by time or by speed, and has no plan that it keeps.
  static bool wanted(const Job& job, const Checkpoint* resumed, bool replan);

  /// A plan for the same workers and servers, used until make() can be called. If shards are dealt
  /// by speed, worker 0 has as many as a worker can get, and each other worker one per device.
  comm::Plan provisional() const;
  bool wants_link() const { return wants_link_; }
  void set_link(const comm::LinkRate& rate) { link_ = rate; }
  /// Of the worker of this rank.
  void add_times(uint16_t worker, LayerTimes times) { times_[worker] = std::move(times); }
  /// What the workers have measured for a plan that is not to be made any more.
  void take_measurements(const MeasuredPlan& other);
  /// Another worker has this rank now.
  void forget(uint16_t worker) { times_.erase(worker); }
  /// Throws ConfigError when times cannot be made sense of.
  comm::Plan make();
  /// How the shards were dealt by speed, in a line; "" where they were not.
  const std::string& dealt() const { return dealt_; }

 private:
  void add_link(double threads);
  void deal_by_speed();
  void add_longest_times();

  const double limit_mbps_;
  comm::PlanRequest request_;
  const std::optional<comm::Plan> earlier_;  ///< that is followed otherwise
  const bool by_time_, by_speed_;            ///< what is decided so
  const bool wants_link_;
  std::optional<comm::LinkRate> link_;    ///< as measured
  std::map<uint16_t, LayerTimes> times_;  ///< by worker
  std::string dealt_;
};

}  // namespace poseidon::trainer
