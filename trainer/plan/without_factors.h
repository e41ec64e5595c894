#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Returns `plan` with the parameter server for all layers, because the workers' devices differ.
/// Each worker rebuilds the gradient of an SFB layer itself, so replicas on different devices would
/// diverge. Throws ConfigError with `difference` if job or network require factors.
comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& difference);

}  // namespace poseidon::trainer
