#pragma once

#include "core/cuda/gpu_list.h"

namespace poseidon::cuda {

/// The GPUs of this machine. Throws ConfigError where it has none that can be used, and says why.
GpuList list_gpus();

/// Makes a GPU the one of the calling thread. Throws ConfigError where it cannot be.
void use_gpu(int index);

}  // namespace poseidon::cuda
