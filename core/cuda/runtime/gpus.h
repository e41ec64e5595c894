#pragma once

#include "core/cuda/gpu_list.h"

namespace poseidon::cuda {

/// The GPUs of this machine. Throws ConfigError with the reason if no GPU can be used.
GpuList list_gpus();

/// Makes a GPU the current one of the calling thread. Throws ConfigError if that is impossible.
void use_gpu(int index);

}  // namespace poseidon::cuda
