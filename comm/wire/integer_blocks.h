#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/philox.h"

/// Blocks of integers: the encoding of gradients for `comm.wire` "int8". A block encodes up to 256
/// consecutive elements of a tensor in canonical order. Blocks are counted from element 0 of the
/// tensor; the last block may be shorter. Element i of a block has the value q[i] * 2^e.
///
/// A block is one header byte and then the integers q, little endian. Bits 0 and 1 of the header
/// are log2 of the bytes of one integer (1, 2, 4 or 8). Bits 2 to 7 are e - kLeastExponent, or
/// kNotFinite if a value of the block was not finite or exceeded the range. Integers are in two's
/// complement and use the full range of their width. The integers of a block that is not finite are
/// zeros of one byte. A block whose integers are all zero has the exponent kGreatestExponent, so
/// that it does not refine the grid of a sum.
namespace poseidon::comm {

inline constexpr uint64_t kBlockElements = 256;
inline constexpr uint64_t kMaxIntegerBytes = 8;
/// Exponents of blocks. Values below 2^kLeastExponent are rounded to multiples of it.
inline constexpr int kLeastExponent = -36, kGreatestExponent = 8;
inline constexpr unsigned kNotFinite = 63;

/// Bytes of the blocks of `elements` elements with `width` bytes for each integer.
constexpr uint64_t bytes_of_blocks(uint64_t elements, uint64_t width) {
  return (elements + kBlockElements - 1) / kBlockElements + elements * width;
}

/// Encodes `values`, which are the elements of a tensor from element `first` on (a multiple of
/// kBlockElements). Each block gets the least exponent for which its integers are at most 127, at
/// least kLeastExponent. Values are rounded stochastically by 16 random bits for each element: up
/// with the probability of their distance to the next lower multiple. The random bits depend only
/// on `random` and on the index of the element in its tensor. Integers have one byte each. Writes
/// bytes_of_blocks(values.size(), 1) bytes.
void encode_blocks(std::span<const float> values, uint64_t first, const RandomStream& random,
                   std::byte* blocks);

/// Adds the values of two encodings of the same `elements` elements, exactly. Each block of the sum
/// has the lower of the two exponents, and the least width that its integers need. The sum of a
/// block that is not finite is not finite, and neither is a block with a sum beyond 64 bits. Sums
/// of 4,096 addends never exceed 64 bits: 4,096 * 127 * 2^(kGreatestExponent - kLeastExponent) is
/// below 2^63. `sum` has room for bytes_of_blocks(elements, 8) bytes, and overlaps no
/// input. Returns the bytes written. Both encodings must be valid.
uint64_t add_blocks(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum);

/// Rounds encoded values to one byte each, with the exponents and the stochastic rounding of
/// encode_blocks(). The result depends on the values only, not on their exponents and widths. The
/// exponent of a sum may exceed kGreatestExponent, by at most 14.
void round_blocks(const std::byte* blocks, uint64_t elements, uint64_t first,
                  const RandomStream& random, std::byte* rounded);

/// Decodes blocks of any width. A block that is not finite becomes NaN.
void decode_blocks(const std::byte* blocks, std::span<float> values);

/// Numbers of blocks.
struct BlockCounts {
  uint64_t all = 0;
  uint64_t below = 0;   ///< with the least exponent: their values may need a finer one
  uint64_t beyond = 0;  ///< not finite, or beyond the range

  BlockCounts& operator+=(const BlockCounts& more);
  bool operator==(const BlockCounts&) const = default;
};
/// Counts the blocks of `elements` elements, of one byte each.
BlockCounts count_blocks(const std::byte* blocks, uint64_t elements);

/// The number of bytes at the start of `bytes` that are the blocks of `elements` elements; nullopt
/// if they are no valid blocks, or if `bytes` ends before them.
std::optional<uint64_t> length_of_blocks(std::span<const std::byte> bytes, uint64_t elements);

}  // namespace poseidon::comm
