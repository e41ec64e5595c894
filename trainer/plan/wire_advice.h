#pragma once

#include <string>

#include "comm/plan/plan.h"

namespace poseidon::trainer {

/// One line about the bytes that wire format "int8" saves, and the time on the link of the plan, if
/// its rate is known. `request` is that of the plan. Returns "" if the plan uses int8 already, or
/// if int8 saves less than a third.
std::string wire_advice(comm::PlanRequest request, const comm::Plan& plan);

}  // namespace poseidon::trainer
