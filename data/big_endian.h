#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace poseidon::data {

/// Returns the 32-bit big-endian number at byte offset `at`. Does not check that `bytes` contains
/// the 4 bytes.
inline uint32_t big_endian(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

}  // namespace poseidon::data
