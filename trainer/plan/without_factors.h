#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// `plan` with all layers by the parameter server, since workers differ: each of them sums a layer
/// that goes by factors for itself, so their replicas would drift. Throws ConfigError, with the
/// difference, where job or network ask for factors.
comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& difference);

}  // namespace poseidon::trainer
