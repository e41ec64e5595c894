#pragma once

#include <vector>

#include "comm/plan/plan.h"

/// Which layer goes by which scheme: policy, job and network file together.
namespace poseidon::comm {

/// Samples of one worker in a step; may be fractional.
double batch_per_worker(const PlanRequest& request);

/// By layer. Throws ConfigError where the network file forces what cannot be, and where policy
/// "time" lacks what it needs.
std::vector<Scheme> choose_schemes(const PlanRequest& request);

/// Throws ConfigError where a layer goes by factors and has none.
void check_factors(const LayerTraffic& layer, Scheme scheme);

/// Milliseconds of a step: `layer_bytes` are sent plus received by a node, by layer. 0 where times
/// or link are not known.
double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<double>& layer_bytes);

}  // namespace poseidon::comm
