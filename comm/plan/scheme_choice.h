#pragma once

#include <string>
#include <vector>

#include "comm/plan/plan.h"

/// The choice of each layer's scheme, from policy, job and network file.
namespace poseidon::comm {

/// The samples of one worker in a step; may be fractional.
double batch_per_worker(const PlanRequest& request);

/// The schemes of all layers.
using Schemes = std::vector<Scheme>;

/// Chooses the scheme of each layer. Returns several choices if policy "time" has a choice: with
/// several workers and the rule "auto". Then the caller uses the plan with the shortest step. The
/// first choice is the best one if all servers hold equally many bytes. The chunks of a plan may be
/// less even. The others are the choices by bytes, and of the rules "ps" and "sfb". Throws
/// ConfigError if the network file forces an impossible scheme, or if a measurement for policy
/// "time" is missing.
std::vector<Schemes> choose_schemes(const PlanRequest& request);

/// Why the plan for `request` uses the scheme of this layer, for the user: the rule that decides.
std::string reason_of(const PlanRequest& request, const LayerTraffic& layer);

/// Throws ConfigError if the layer cannot use `scheme`.
void check_scheme(const LayerTraffic& layer, Scheme scheme);

}  // namespace poseidon::comm
