#pragma once

#include "layers/cpu/vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Loads of some lanes of a vector. The other lanes become zero, and their memory is not read.
namespace poseidon::layers::cpu {

using VectorOfBlock = Vectors<kLanesOfBlock>::Float;

#if defined(__AVX512F__)
using LaneMask = __mmask16;
#else
using LaneMask = Vectors<kLanesOfBlock>::Int;
#endif

/// The lanes from `begin` up to, but not including, `end`. Requires 0 <= begin, end <= 16.
[[gnu::always_inline]] inline LaneMask lanes_between(int64_t begin, int64_t end) {
#if defined(__AVX512F__)
  return static_cast<LaneMask>(((1U << end) - 1U) & ~((1U << begin) - 1U));
#else
  const LaneMask lane{0, 1, 2, 3, 4, 5, 6, 7};
  return (lane >= static_cast<int32_t>(begin)) & (lane < static_cast<int32_t>(end));
#endif
}

[[gnu::always_inline]] inline VectorOfBlock load_lanes(const float* from, LaneMask mask) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(mask, from);
#elif defined(__AVX__)
  return _mm256_maskload_ps(from, (__m256i)mask);
#else
  VectorOfBlock vector{};
  for (int lane = 0; lane < kLanesOfBlock; ++lane)
    if (mask[lane] != 0) vector[lane] = from[lane];
  return vector;
#endif
}

/// The lanes of either vector. A lane that is not zero in one of them must be zero in the other.
[[gnu::always_inline]] inline VectorOfBlock either(const VectorOfBlock& a, const VectorOfBlock& b) {
  using Int = Vectors<kLanesOfBlock>::Int;
  return std::bit_cast<VectorOfBlock>(std::bit_cast<Int>(a) | std::bit_cast<Int>(b));
}

}  // namespace poseidon::layers::cpu
