#pragma once

#include <bit>
#include <cstdint>

namespace poseidon {

/// The upper half of an fp32 number: its sign, its eight bits of exponent and seven of mantissa. It
/// becomes a float wherever one is wanted, and a float becomes one by rounding to nearest, ties to
/// even; a NaN stays a NaN. Without branches, so that loops over it become vector code.
class Bf16 {
 public:
  Bf16() = default;
  constexpr Bf16(float value) : bits_(rounded(std::bit_cast<uint32_t>(value))) {}
  /// Not by way of a Bf16 that is copied then: GCC 12 makes no vector code of such loops.
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
