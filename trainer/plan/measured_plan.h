#pragma once

#include <map>
#include <utility>

#include "comm/plan/plan.h"
#include "comm/wire/messages.h"
#include "trainer/job/job.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// The plan of a job that decides by time: made when its workers have timed the layers and, unless
/// the job says it, the network between them. The slowest count.
class MeasuredPlan {
 public:
  explicit MeasuredPlan(const Job& job);

  /// Whether a run has to measure: it decides by time, and has no plan that it keeps.
  static bool wanted(const Job& job, const Checkpoint* resumed, bool replan);

  /// A plan for the same workers and servers, until the true one can be made.
  comm::Plan provisional() const;
  bool wants_link() const { return wants_link_; }
  void set_link(const comm::LinkRate& rate);
  /// Of the worker of this rank.
  void add_times(uint16_t worker, LayerTimes times) { times_[worker] = std::move(times); }
  /// Another worker has this rank now.
  void forget(uint16_t worker) { times_.erase(worker); }
  /// Throws ConfigError when times cannot be made sense of, or workers have timed other layers than
  /// others.
  comm::Plan make();

 private:
  const double limit_mbps_;
  double processor_ns_per_byte_ = 0;  ///< of the link, as measured
  const bool wants_link_;
  comm::PlanRequest request_;
  std::map<uint16_t, LayerTimes> times_;  ///< by worker
};

}  // namespace poseidon::trainer
