#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Returns `plan` with scheme `ps` for all layers, because workers would compute different
/// gradients from the same factors. Throws ConfigError with the reason `fault` if job or network
/// require factors.
comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& fault);

}  // namespace poseidon::trainer
