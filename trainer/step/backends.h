#pragma once

#include "core/cuda/gpu_list.h"
#include "layers/backend.h"
#include "layers/cuda/library.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// One of the devices of a worker that a job names, with all that computes on it. This is where
/// devices are chosen, and nowhere else.
layers::Backend make_backend(const Job& job, size_t device = 0);

/// What a job with the device "cuda" asks of one of a worker's GPUs.
layers::cuda::GpuRequest gpu_of(const DeviceConfig& device, size_t number = 0);

/// Throws ConfigError where there are none that can be used, which says why.
cuda::GpuList gpus_of_this_machine();

}  // namespace poseidon::trainer
