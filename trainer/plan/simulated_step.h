#pragma once

#include "comm/plan/plan.h"

namespace poseidon::trainer {

/// Milliseconds of a step of this plan in a simulation of the real protocol. Links have the rate
/// request.link_mbps and no latency. Network I/O takes processor time from computation. All workers
/// have the compute times of the worker whose node sends and receives the most bytes. `request`
/// must be the request from which the plan was made, with layer times. Throws ConfigError if it has
/// no times or no link rate, or if there is only one worker.
double simulated_step_ms(const comm::Plan& plan, const comm::PlanRequest& request);

}  // namespace poseidon::trainer
