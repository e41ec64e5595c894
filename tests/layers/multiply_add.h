#pragma once

#include <cmath>

#include "core/isa.h"

namespace poseidon::test {

/// Computes sum + a * b as the kernels do: fused if the instruction set has FMA.
inline float multiply_add(float a, float b, float sum) {
#ifdef __FMA__
  constexpr bool kFused = true;
#else
  const bool kFused = isa() != Isa::kX86V2 && isa() != Isa::kNative;
#endif
  if (kFused) return std::fma(a, b, sum);
  volatile float product = a * b;
  return sum + product;
}

}  // namespace poseidon::test
