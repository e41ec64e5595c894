#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "trainer/job/job.h"
#include "trainer/messages/device_note.h"

namespace poseidon::trainer {

/// One line of advice if the workers have different kinds of device: assign logical shards by
/// speed, use more shards, or both. The reason is that each step waits for the slowest worker.
/// Returns "" if all devices are of one kind, or if nothing can be improved.
std::string balance_advice(const Job& job, const comm::Plan& plan, const DeviceNotes& devices);

}  // namespace poseidon::trainer
