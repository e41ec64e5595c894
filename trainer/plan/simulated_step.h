#pragma once

#include "comm/plan/plan.h"

namespace poseidon::trainer {

/// The milliseconds of a step of this plan in a simulation: the real protocol over a network in
/// numbers, with links of request.link_mbps that take no time but that of their bytes. All workers
/// compute as slowly as the one whose processor moves most bytes. The request is the one that the
/// plan was made for, with times. Throws ConfigError where it lacks times or the link, or where
/// there is one worker and so nothing to simulate.
double simulated_step_ms(const comm::Plan& plan, const comm::PlanRequest& request);

}  // namespace poseidon::trainer
