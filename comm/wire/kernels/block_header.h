#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "comm/wire/integer_blocks.h"

/// The header byte of a block of integers (comm/wire/integer_blocks.h).
namespace poseidon::comm {

// The integers on the wire are little endian, and so is the memory from which they are copied.
static_assert(std::endian::native == std::endian::little);

struct BlockHeader {
  unsigned code = 0;       ///< exponent - kLeastExponent, or kNotFinite
  unsigned log_width = 0;  ///< log2 of the bytes of one integer

  bool finite() const { return code != kNotFinite; }
  /// Bytes of a block of `count` elements.
  uint64_t bytes(uint64_t count) const { return 1 + (count << log_width); }
  std::byte encoded() const { return static_cast<std::byte>(code << 2 | log_width); }
};

inline BlockHeader header_at(const std::byte* block) {
  const auto byte = std::to_integer<unsigned>(*block);
  return {byte >> 2, byte & 3};
}

/// The header of a block whose integers are all zero.
inline constexpr BlockHeader kZeroBlock{kGreatestExponent - kLeastExponent, 0};
inline constexpr BlockHeader kNotFiniteBlock{kNotFinite, 0};

}  // namespace poseidon::comm
