#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// The formats of values on the wire: "fp32" as they are, or "bf16", rounded to nearest, ties to
/// even.
namespace poseidon::comm {

enum class WireNumber : uint8_t { kFp32, kBf16 };

inline constexpr size_t bytes_of(WireNumber number) { return number == WireNumber::kBf16 ? 2 : 4; }

/// The upper half of the fp32 bits after rounding to nearest even; a NaN stays a NaN.
inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

inline float from_bf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

/// Convert between fp32 and the wire's format; `wire` holds values.size() * bytes_of(number) bytes.
void to_wire(WireNumber number, std::span<const float> values, std::byte* wire);
void from_wire(WireNumber number, const std::byte* wire, std::span<float> values);

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
