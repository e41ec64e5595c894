#pragma once

#include <stdexcept>

namespace poseidon::trainer {

/// The job has failed elsewhere: no further sum will come.
class JobLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace poseidon::trainer
