#pragma once

#include <stdexcept>

namespace poseidon::trainer {

/// Thrown when the job has failed elsewhere, so that no further sum will arrive.
class JobFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace poseidon::trainer
