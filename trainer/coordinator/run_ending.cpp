#include "trainer/coordinator/run_ending.h"

#include "core/failure.h"

namespace poseidon::trainer {

bool RunEnding::fail(const std::exception_ptr& failure) {
  if (failure_ || node_failure_) return false;
  failure_ = failure;
  return true;
}

void RunEnding::transport_failed(const std::exception_ptr& failure, int64_t step) {
  if (!failure_) failure_ = failure;
  if (node_failure_)
    outcome_ = {.finished = false, .failure = *node_failure_, .saved_step = {}};
  else
    end_by_failure(message_of(failure), step);
}

void RunEnding::apply_own_failure(int64_t step) {
  if (outcome_->finished && failure_) end_by_failure(message_of(failure_), step);
}

void RunEnding::end_by_failure(const std::string& why, int64_t step) {
  outcome_ = {.finished = false,
              .failure = {.kind = comm::NodeFailure::Kind::kError,
                          .who = {},
                          .address = "",
                          .why = why,
                          .step = step,
                          .awaited = ""},
              .saved_step = {}};
}

}  // namespace poseidon::trainer
