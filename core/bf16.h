#pragma once

#include <bit>
#include <cstdint>

namespace poseidon {

/// A bfloat16 number: the upper half of an fp32 number, with 1 sign bit, 8 exponent bits and 7
/// mantissa bits. It converts implicitly to and from float. A float is rounded to the nearest Bf16,
/// ties to even; a NaN stays a NaN. The code has no branches, so the compiler can vectorize loops
/// over it.
class Bf16 {
 public:
  Bf16() = default;
  constexpr Bf16(float value) : bits_(rounded(std::bit_cast<uint32_t>(value))) {}
  /// Assigns directly, not through a temporary Bf16: GCC 12 does not vectorize loops that copy a
  /// temporary.
  constexpr Bf16& operator=(float value) {
    bits_ = rounded(std::bit_cast<uint32_t>(value));
    return *this;
  }
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16);
  }

 private:
  static constexpr uint16_t rounded(uint32_t bits) {
    const uint32_t nearest = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40U;
    return static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : nearest);
  }

  uint16_t bits_;
};

}  // namespace poseidon
