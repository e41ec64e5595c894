#pragma once

#include "core/cuda/gpu_list.h"
#include "layers/backend.h"
#include "layers/cuda/library.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Creates the backend of a worker's device with index `device`. No other function of the trainer
/// creates backends. `log` must outlive the backend; null: no warnings.
layers::Backend make_backend(const Job& job, size_t device = 0, Log* log = nullptr);

/// The GPU request of a job with the device "cuda". `number` is the index of the device within the
/// worker. `log` as in make_backend().
layers::cuda::GpuRequest gpu_of(const DeviceConfig& device, size_t number = 0, Log* log = nullptr);

/// Lists the GPUs of this machine. Throws ConfigError with the reason if it has no usable GPU.
cuda::GpuList gpus_of_this_machine();

}  // namespace poseidon::trainer
