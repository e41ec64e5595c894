#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"
#include "trainer/messages/device_note.h"

namespace poseidon::trainer {

/// One line of advice with numbers if the workers have different kinds of device: assign logical
/// shards by speed, or use more shards, to shorten the steps. "" if all devices are of one kind, or
/// there is nothing to improve.
std::string balance_advice(const Job& job, const comm::Plan& plan, const DeviceNotes& devices);

}  // namespace poseidon::trainer
