#pragma once

#include <vector>

#include "comm/plan/plan.h"

/// The choice of each layer's scheme, by policy, job and network file together.
namespace poseidon::comm {

/// The samples of one worker in a step; may be fractional.
double batch_per_worker(const PlanRequest& request);

/// Chooses the scheme of each layer. Throws ConfigError if the network file forces a scheme that is
/// impossible, or policy "time" lacks what it needs.
std::vector<Scheme> choose_schemes(const PlanRequest& request);

/// Throws ConfigError if `scheme` is by factors and the layer has none.
void check_factors(const LayerTraffic& layer, Scheme scheme);

/// The predicted milliseconds of a step in which a node sends plus receives `layer_bytes` of each
/// layer; 0 if times or link are not known.
double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<double>& layer_bytes);

}  // namespace poseidon::comm
