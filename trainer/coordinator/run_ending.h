#pragma once

#include <exception>
#include <optional>
#include <string>

#include "comm/membership/coordinator.h"

namespace poseidon::trainer {

/// The outcome of a run on several workers. The first failure decides it. Used by the main thread.
class RunEnding {
 public:
  /// An operation of this process has failed. Returns true if this is the first failure of the run:
  /// the caller must then report it to the coordinator, which ends the job. A later failure is
  /// ignored.
  bool fail(const std::exception_ptr& failure);
  /// Records the failure that ended the job, from comm::Coordinator.
  void record_failure(const comm::NodeFailure& node_failure) { node_failure_ = node_failure; }
  /// Ends the run, because the I/O thread has failed and no member can be reached. If the job has
  /// already failed, the outcome has that failure. `step`: the step in progress.
  void transport_failed(const std::exception_ptr& failure, int64_t step);
  /// Records the outcome of the job, from comm::Coordinator. The run is then over.
  void end(const comm::Outcome& outcome) { outcome_ = outcome; }
  /// Makes the run fail if this process has failed, even if all members have finished. Requires
  /// is_over(). `step`: the step in progress.
  void apply_own_failure(int64_t step);

  bool is_over() const { return outcome_.has_value(); }
  bool job_has_failed() const { return node_failure_.has_value(); }
  /// Valid once is_over() is true.
  const comm::Outcome& outcome() const { return *outcome_; }
  /// First failure of this process; null if it has not failed.
  const std::exception_ptr& failure() const { return failure_; }

 private:
  void end_by_failure(const std::string& why, int64_t step);

  std::exception_ptr failure_;
  std::optional<comm::NodeFailure> node_failure_;
  std::optional<comm::Outcome> outcome_;
};

}  // namespace poseidon::trainer
