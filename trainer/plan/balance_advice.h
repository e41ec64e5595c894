#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"
#include "trainer/messages/device_note.h"

namespace poseidon::trainer {

/// What would make a step shorter where the workers have different kinds of device, in a line with
/// numbers: to deal the logical shards by speed, and enough of them. "" where they are of one kind,
/// or nothing is to be said.
std::string balance_advice(const Job& job, const comm::Plan& plan, const DeviceNotes& devices);

}  // namespace poseidon::trainer
