#pragma once

#include <stdexcept>

namespace poseidon::trainer {

/// Thrown in a compute thread when another thread or node has failed, so that no further sum will
/// arrive.
class JobFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace poseidon::trainer
