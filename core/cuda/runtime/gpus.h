#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "core/cuda/gpu_list.h"

namespace poseidon::cuda {

/// The GPUs of this machine. Throws ConfigError with the reason if no GPU can be used.
GpuList list_gpus();

/// Makes a GPU the current device of the calling thread (cudaSetDevice). Throws ConfigError if the
/// GPU cannot be used.
void use_gpu(int index);

/// Throws ConfigError if no code of this build can run on the GPU. `architectures`: the compute
/// capabilities for which the build has machine code, ascending, such as 90 for 9.0. For later
/// GPUs, the driver compiles the PTX of the last one.
void expect_code_for(int index, std::span<const int> architectures);

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

/// Owns an object that a library made for a GPU. Holds GpuLock while it destroys the object,
/// because the library then waits for the GPU and frees memory.
template <class Object, class Destroy>
std::shared_ptr<Object> library_object(int gpu, Object* object, Destroy destroy) {
  return {object, [gpu, destroy](Object* held) {
            const GpuLock lock(gpu);
            destroy(held);
          }};
}

}  // namespace poseidon::cuda
