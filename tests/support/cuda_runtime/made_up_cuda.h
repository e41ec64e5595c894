#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>

/// A CUDA runtime of the host, in place of NVIDIA's, for tests of what calls it: each stream is a
/// thread, memory is the host's.
namespace poseidon::test {

struct MadeUpCuda {
  int driver_version = 13000;  ///< 0: there is no driver
  int gpus = 1;
  size_t memory_bytes = size_t{1} << 30;  ///< what an allocation may be at most
  /// What the runtime says after the next launch, once.
  cudaError_t launch_error = cudaSuccess;
  /// What has failed on the GPU: from then on every call says so.
  std::atomic<cudaError_t> sticky{cudaSuccess};
  /// What is there and was not given back.
  std::atomic<int> allocations{0}, events{0}, streams{0}, graphs{0};
  std::atomic<int> graph_launches{0};

  /// A machine with one GPU on which nothing has happened.
  void reset();
  /// As a kernel would be: run in the stream's thread.
  static void launch(cudaStream_t stream, std::function<void()> work);
};

MadeUpCuda& made_up_cuda();

}  // namespace poseidon::test
