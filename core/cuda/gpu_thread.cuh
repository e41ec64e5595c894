#pragma once

#include <cstdint>

/// The functions that a kernel calls on its thread (indices, barrier, shuffle). host_thread.h has
/// the same functions for the host.
namespace poseidon::cuda {

/// One thread of a grid.
class Thread {
 public:
  __device__ uint32_t block() const { return blockIdx.x; }
  __device__ uint32_t block_y() const { return blockIdx.y; }
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t blocks() const { return gridDim.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
  __device__ uint32_t lane() const { return threadIdx.x % 32; }
  __device__ uint32_t warp() const { return threadIdx.x / 32; }

  __device__ void synchronize() const { __syncthreads(); }
  template <class T>
  __device__ T shuffle_xor(T value, uint32_t mask) const {
    return __shfl_xor_sync(~0U, value, static_cast<int>(mask));
  }
};

}  // namespace poseidon::cuda
