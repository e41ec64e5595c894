#pragma once

#include "layers/cpu/vectors.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/// The arithmetic of Poseidon's matrix products (layers/cpu/product.h).
namespace poseidon::layers::cpu::product {

using Float = Vectors<kLanesOfBlock>::Float;

/// sum + left * right, with one rounding if the processor has fused multiply-add.
[[gnu::always_inline]] inline Float multiply_add(float left, const Float& right, const Float& sum) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum);
#else
  return sum + left * right;
#endif
}

/// Leaky relu. NaN stays NaN.
[[gnu::always_inline]] inline Float leaky_relu(const Float& value, float slope) {
  const Float below = slope == 0 ? Float{} : value * slope;
  return value <= 0 ? below : value;
}

}  // namespace poseidon::layers::cpu::product
