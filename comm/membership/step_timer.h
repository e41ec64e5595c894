#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Measures the durations of a job's steps. Deadlines and warnings about slow members depend on
/// them.
class StepTimer {
 public:
  /// Starts the timer when a view begins after `step` steps.
  void begin(int64_t step, Time now);
  /// Records that a worker has done `step` steps.
  void reached(int64_t step, Time now);

  /// The most steps that any worker has done.
  int64_t furthest_step() const { return furthest_step_; }
  /// The median duration of the latest steps; 0 before the first is done.
  Time median_step() const;

 private:
  std::vector<Time> latest_;  ///< durations of the latest steps
  Time reached_at_{0};
  int64_t furthest_step_ = 0;
};

}  // namespace poseidon::comm
