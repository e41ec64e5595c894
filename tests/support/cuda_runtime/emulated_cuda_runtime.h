#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>

/// A CUDA runtime that runs on the host. Tests link it in place of NVIDIA's, to test the code that
/// calls the runtime. Each stream is a thread. Device memory is host memory.
namespace poseidon::test {

struct EmulatedCudaRuntime {
  int driver_version = 13000;  ///< 0: no driver is installed
  int gpus = 1;
  int capability = 90;                    ///< of all GPUs: 90 is 9.0
  size_t memory_bytes = size_t{1} << 30;  ///< largest allocation that succeeds
  /// Error that cudaPeekAtLastError reports until cudaGetLastError clears it.
  std::atomic<cudaError_t> launch_error{cudaSuccess};
  cudaError_t graph_error = cudaSuccess;  ///< result of cudaGraphInstantiate
  size_t free_bytes = 1000000;            ///< of cudaMemGetInfo
  /// A GPU fault: every later call returns this error.
  std::atomic<cudaError_t> sticky{cudaSuccess};
  /// Objects that were made and not destroyed.
  std::atomic<int> allocations{0}, events{0}, streams{0}, graphs{0};
  std::atomic<int> graph_launches{0};
  /// Calls of cudaHostAlloc, of cudaEventCreateWithFlags and of cudaDeviceSynchronize.
  std::atomic<int> host_allocations{0}, created_events{0}, device_waits{0};

  /// Restores a machine with one GPU and no errors.
  void reset();
  /// Runs `work` in the stream's thread, as a kernel runs.
  static void launch(cudaStream_t stream, std::function<void()> work);
};

EmulatedCudaRuntime& emulated_cuda_runtime();

}  // namespace poseidon::test
