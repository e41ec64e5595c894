#pragma once

#include <vector>

#include "comm/plan/plan.h"

/// The choice of each layer's scheme, by policy, job and network file together.
namespace poseidon::comm {

/// The samples of one worker in a step; may be fractional.
double batch_per_worker(const PlanRequest& request);

/// The schemes of all layers.
using Schemes = std::vector<Scheme>;

/// Chooses the scheme of each layer. Policy "time" gives several choices, of which the plan with
/// the shortest step is to be taken: the best by an even division among servers, which chunks may
/// not allow, and those by rule. Throws ConfigError if the network file forces a scheme that is
/// impossible, or policy "time" lacks what it needs.
std::vector<Schemes> choose_schemes(const PlanRequest& request);

/// Throws ConfigError if `scheme` is by factors and the layer has none.
void check_factors(const LayerTraffic& layer, Scheme scheme);

}  // namespace poseidon::comm
