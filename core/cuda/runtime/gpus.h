#pragma once

#include <mutex>

#include "core/cuda/gpu_list.h"

namespace poseidon::cuda {

/// The GPUs of this machine. Throws ConfigError with the reason if no GPU can be used.
GpuList list_gpus();

/// Makes a GPU the current device of the calling thread (cudaSetDevice). Throws ConfigError if the
/// GPU cannot be used.
void use_gpu(int index);

/// Excludes other threads of this process from two kinds of calls on one GPU: stream capture, and
/// calls that wait for the whole GPU, allocate or free memory. CUDA invalidates a capture if
/// another thread waits for the GPU. A thread may hold several locks of one GPU, because work that
/// is captured may try to allocate: CUDA then refuses the call.
class GpuLock {
 public:
  explicit GpuLock(int gpu);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace poseidon::cuda
