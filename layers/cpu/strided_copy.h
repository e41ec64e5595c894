#pragma once

#include <algorithm>
#include <utility>

#include "layers/cpu/lane_masks.h"

namespace poseidon::layers::cpu {

/// Copies `count` floats: vectors of 16, then the rest.
[[gnu::always_inline]] inline void copy_numbers(const float* from, int64_t count, float* to) {
  constexpr int64_t kVector = 16;
  int64_t i = 0;
  for (; i + kVector <= count; i += kVector) std::copy_n(from + i, kVector, to + i);
#ifdef __AVX512F__
  const auto rest = static_cast<__mmask16>((1U << (count - i)) - 1);
  if (rest != 0) _mm512_mask_storeu_ps(to + i, rest, _mm512_maskz_loadu_ps(rest, from + i));
#else
  for (; i < count; ++i) to[i] = from[i];
#endif
}

template <size_t... kLane>
[[gnu::always_inline]] inline VectorOfBlock even_lanes(const VectorOfBlock& low,
                                                       const VectorOfBlock& high,
                                                       std::index_sequence<kLane...>) {
  return __builtin_shufflevector(low, high, 2 * kLane...);
}

/// Copies every `step`-th number.
inline void copy_strided(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) return copy_numbers(from, count, to);
  constexpr int64_t kLanes = kLanesOfBlock;
  int64_t i = 0;
  // Each iteration also reads the number after the last one that it copies. That number exists,
  // because the loop ends before the last vector.
  if (step == 2)
    for (; i + kLanes < count; i += kLanes)
      store(to + i, even_lanes(load<VectorOfBlock>(from + 2 * i),
                               load<VectorOfBlock>(from + 2 * i + kLanes),
                               std::make_index_sequence<kLanesOfBlock>()));
  for (; i < count; ++i) to[i] = from[i * step];
}

/// The quotient, rounded up.
inline int64_t divided_up(int64_t value, int64_t by) {
  return value <= 0 ? -(-value / by) : (value + by - 1) / by;
}

}  // namespace poseidon::layers::cpu
