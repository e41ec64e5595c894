#pragma once

#include "layers/backend.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The device that a job names, with all that computes on it. This is where devices are chosen, and
/// nowhere else.
layers::Backend make_backend(const Job& job);

}  // namespace poseidon::trainer
