#pragma once

#include <exception>
#include <optional>
#include <string>

#include "comm/membership/coordinator.h"

namespace poseidon::trainer {

/// How a run on several workers comes to its end: what went wrong first counts. Used by the main
/// thread.
class RunEnding {
 public:
  /// This process has failed. Returns whether that is the first thing to go wrong, by which the job
  /// is to fail.
  bool fail(const std::exception_ptr& failure);
  /// The job has failed, as the coordinator says.
  void lose(const comm::Loss& loss) { loss_ = loss; }
  /// The I/O thread has failed: nobody can be told, or asked for anything. `step`: under way.
  void lose_transport(const std::exception_ptr& failure, int64_t step);
  /// The job is over, as the coordinator says.
  void end(const comm::Outcome& outcome) { outcome_ = outcome; }
  /// Members may be done before what they have sent could be used: then the run has failed even so.
  void settle(int64_t step);

  bool is_over() const { return outcome_.has_value(); }
  bool is_lost() const { return loss_.has_value(); }
  /// Valid once it is over.
  const comm::Outcome& outcome() const { return *outcome_; }
  /// Of this process's own; may be null.
  const std::exception_ptr& failure() const { return failure_; }

 private:
  void end_by_failure(const std::string& why, int64_t step);

  std::exception_ptr failure_;
  std::optional<comm::Loss> loss_;
  std::optional<comm::Outcome> outcome_;
};

}  // namespace poseidon::trainer
