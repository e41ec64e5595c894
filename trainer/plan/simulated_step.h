#pragma once

#include "comm/plan/plan.h"

namespace poseidon::trainer {

/// Milliseconds of a step of this plan in a simulation of the real protocol. Links have the rate
/// request.link_mbps and no latency. All workers compute as slowly as the worker on the node whose
/// processor moves the most bytes. `request` must be the request from which the plan was made, with
/// layer times. Throws ConfigError if it has no times or no link rate, or if there is only one
/// worker.
double simulated_step_ms(const comm::Plan& plan, const comm::PlanRequest& request);

}  // namespace poseidon::trainer
