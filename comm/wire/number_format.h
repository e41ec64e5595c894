#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// The formats of values on the wire: "fp32" as they are, or "bf16" (core/bf16.h).
namespace poseidon::comm {

enum class WireNumber : uint8_t { kFp32, kBf16 };

inline constexpr size_t bytes_of(WireNumber number) { return number == WireNumber::kBf16 ? 2 : 4; }

/// Convert between fp32 and the wire's format; `wire` holds values.size() * bytes_of(number) bytes.
void to_wire(WireNumber number, std::span<const float> values, std::byte* wire);
void from_wire(WireNumber number, const std::byte* wire, std::span<float> values);

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
