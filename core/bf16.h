#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace poseidon {

/// A bfloat16 number: the upper half of an fp32 number, with 1 sign bit, 8 exponent bits and 7
/// mantissa bits. It converts implicitly to and from float. A float is rounded to the nearest Bf16,
/// ties to even. Every NaN becomes kNan, the only NaN that a GPU's conversion returns. The host's
/// code has no branches, so the compiler can vectorize loops that convert.
class Bf16 {
 public:
  static constexpr uint16_t kNan = 0x7FFF;

  Bf16() = default;
  constexpr Bf16(float value) : bits_(rounded(value)) {}
  /// Assigns directly, not through a temporary Bf16: GCC 12 does not vectorize loops that copy a
  /// temporary.
  constexpr Bf16& operator=(float value) {
    bits_ = rounded(value);
    return *this;
  }
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16);
  }

 private:
  static constexpr uint16_t rounded(float value) {
#ifdef __CUDA_ARCH__
    if (!std::is_constant_evaluated()) {
      uint16_t nearest = 0;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(nearest) : "f"(value));
      return nearest;
    }
#endif
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t nearest = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    return static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? kNan : nearest);
  }

  uint16_t bits_;
};

}  // namespace poseidon
