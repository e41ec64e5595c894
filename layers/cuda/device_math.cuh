#pragma once

#include <cmath>

#include "core/cuda/kernel.cuh"

/// Functions of one float, of a GPU's own library in its code and of the C library in the host's.
/// The two agree within a few of the last digits, not to the bit.
namespace poseidon::layers::cuda {

POSEIDON_DEVICE float exponential(float x) { return ::expf(x); }
POSEIDON_DEVICE float logarithm(float x) { return ::logf(x); }

/// x^-1/2, for which a GPU has an instruction.
POSEIDON_DEVICE float inverse_root(float x) {
#ifdef __CUDA_ARCH__
  return ::rsqrtf(x);
#else
  return 1 / ::sqrtf(x);
#endif
}

}  // namespace poseidon::layers::cuda
