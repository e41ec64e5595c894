#pragma once

#include <cmath>

#include "core/cuda/kernel.cuh"

/// Functions of one float. GPU code calls CUDA's math library, host code the C library. Results
/// agree within a few units in the last place, not bit for bit.
namespace poseidon::layers::cuda {

POSEIDON_DEVICE float exponential(float x) { return ::expf(x); }
POSEIDON_DEVICE float logarithm(float x) { return ::logf(x); }

/// x^(-1/2). A GPU has an instruction for this function.
POSEIDON_DEVICE float inverse_root(float x) {
#ifdef __CUDA_ARCH__
  return ::rsqrtf(x);
#else
  return 1 / ::sqrtf(x);
#endif
}

}  // namespace poseidon::layers::cuda
