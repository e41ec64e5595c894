#pragma once

#include <optional>
#include <string>

#include "comm/plan/plan.h"
#include "core/json.h"

/// What each scheme would cost for each layer, and why the plan uses the scheme that it uses.
namespace poseidon::comm {

/// Adds to each layer in `json`, which is to_json(plan):
/// - "schemes": for "ps" and "sfb" an object with "bytes" per node and step, sent plus received, if
///   all servers hold equally many bytes, the "format" of the gradients or factors, and the
///   "rebuild_gflop" of each worker; null if the layer cannot use the scheme
/// - "reason": why the plan uses the scheme
///
/// `request` is that of the plan. `follows`: the plan follows an earlier one (follow_plan).
void add_scheme_table(const PlanRequest& request, const Plan& plan, bool follows, Json& json);

}  // namespace poseidon::comm
