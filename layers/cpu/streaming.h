#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "layers/cpu/vectors.h"

/// Stores that bypass the caches, for data that the caches would evict before it is read. These
/// stores do not read a line before they overwrite it, and do not evict other lines. Other threads
/// see the data after the storing thread has called finish_streaming(). Without AVX, stream() is a
/// plain store.
namespace poseidon::layers::cpu {

/// Whether stream() may write vectors at `memory`.
inline bool can_stream_to(const float* memory) {
  return reinterpret_cast<uintptr_t>(memory) % 64 == 0;
}

/// `memory` must be aligned to the vector's size.
template <class Vector>
[[gnu::always_inline]] inline void stream(float* memory, const Vector& vector) {
#if defined(__AVX512F__)
  if constexpr (sizeof vector == 64) return _mm512_stream_ps(memory, (__m512)vector);
#endif
#if defined(__AVX__)
  if constexpr (sizeof vector == 32) return _mm256_stream_ps(memory, (__m256)vector);
#endif
  store(memory, vector);
}

inline void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace poseidon::layers::cpu
