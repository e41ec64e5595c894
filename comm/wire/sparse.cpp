#include "comm/wire/sparse.h"

#include <bit>
#include <cstring>

#include "comm/wire/kernels/wire_kernels.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

SparseKernels kernels_of(uint64_t width) {
  check(width == 2 || width == 4, "only numbers of 2 or 4 bytes have a sparse form");
  const WireKernels kernels = wire_kernels();
  return width == 2 ? kernels.sparse2 : kernels.sparse4;
}

uint64_t bits_set(std::span<const std::byte> bitmap) {
  uint64_t count = 0, at = 0;
  for (uint64_t word = 0; at + sizeof word <= bitmap.size(); at += sizeof word) {
    std::memcpy(&word, bitmap.data() + at, sizeof word);
    count += static_cast<uint64_t>(std::popcount(word));
  }
  for (; at < bitmap.size(); ++at)
    count += static_cast<uint64_t>(std::popcount(std::to_integer<unsigned>(bitmap[at])));
  return count;
}

}  // namespace

uint64_t sparse_bytes(std::span<const std::byte> numbers, uint64_t width) {
  const uint64_t elements = numbers.size() / width;
  return bytes_of_bitmap(elements) + kernels_of(width).count(numbers.data(), elements) * width;
}

void encode_sparse(std::span<const std::byte> numbers, uint64_t width,
                   std::span<std::byte> sparse) {
  const uint64_t elements = numbers.size() / width, before = bytes_of_bitmap(elements);
  kernels_of(width).compress(numbers.data(), elements, sparse.data(), sparse.data() + before,
                             sparse.size() - before);
}

bool may_be_sparse(uint64_t length, uint64_t elements, uint64_t width) {
  const uint64_t before = bytes_of_bitmap(elements);
  return length >= before && length < elements * width && (length - before) % width == 0;
}

bool is_sparse(std::span<const std::byte> sparse, uint64_t elements, uint64_t width) {
  const auto bitmap = sparse.first(bytes_of_bitmap(elements));
  const uint64_t used = elements % 8;
  if (used != 0 && std::to_integer<unsigned>(bitmap.back()) >> used != 0) return false;
  return bitmap.size() + bits_set(bitmap) * width == sparse.size();
}

void decode_sparse(std::span<const std::byte> sparse, uint64_t width,
                   std::span<std::byte> numbers) {
  const uint64_t elements = numbers.size() / width, before = bytes_of_bitmap(elements);
  kernels_of(width).expand(sparse.data(), sparse.data() + before, sparse.size() - before, elements,
                           numbers.data());
}

}  // namespace poseidon::comm
