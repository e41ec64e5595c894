#pragma once

#include "core/cuda/gpu_list.h"
#include "layers/backend.h"
#include "layers/cuda/library.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The device that a job names, with all that computes on it. This is where devices are chosen, and
/// nowhere else.
layers::Backend make_backend(const Job& job);

/// What a job with the device "cuda" asks of its GPU.
layers::cuda::GpuRequest gpu_of(const DeviceConfig& device);

/// Throws ConfigError where there are none that can be used, which says why.
cuda::GpuList gpus_of_this_machine();

}  // namespace poseidon::trainer
