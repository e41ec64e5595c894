#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// The sparse form of numbers of 2 or 4 bytes. A bitmap has one bit for each number. The numbers
/// that are not zero follow, in order. The bit of number i is bit i % 8 of byte i / 8, counted from
/// the least significant bit. Bits after the last number are clear. A number is zero if all its
/// bits are clear, so -0.0 is not zero. A slice of factors is sent in this form only if the numbers
/// themselves, the dense form, are longer. So the length of a slice determines its form.
namespace poseidon::comm {

constexpr uint64_t bytes_of_bitmap(uint64_t elements) { return (elements + 7) / 8; }

/// Bytes of the sparse form of `numbers`, which have `width` bytes each.
uint64_t sparse_bytes(std::span<const std::byte> numbers, uint64_t width);

/// Writes the sparse form to `sparse`, which has sparse_bytes() bytes.
void encode_sparse(std::span<const std::byte> numbers, uint64_t width, std::span<std::byte> sparse);

/// Whether a sparse form of `elements` numbers may have `length` bytes and is shorter than the
/// dense form.
bool may_be_sparse(uint64_t length, uint64_t elements, uint64_t width);

/// Whether bytes of such a length are the sparse form of `elements` numbers.
bool is_sparse(std::span<const std::byte> sparse, uint64_t elements, uint64_t width);

/// Writes all numbers of a valid sparse form.
void decode_sparse(std::span<const std::byte> sparse, uint64_t width, std::span<std::byte> numbers);

}  // namespace poseidon::comm
