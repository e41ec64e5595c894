#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Returns `plan` with scheme `ps` for all layers, because the workers' arithmetic differs. Each
/// worker computes the gradient of an `sfb` layer from the factors itself, so replicas would
/// diverge. Throws ConfigError with `difference` if job or network require factors.
comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& difference);

}  // namespace poseidon::trainer
