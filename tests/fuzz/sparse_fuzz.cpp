// Arbitrary bytes as the sparse form of numbers. The first two bytes are the number of numbers and
// their width. Accepted forms are decoded without access outside their memory.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "comm/wire/sparse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon::comm;
  if (size < 2) return 0;
  const uint64_t elements = 1 + data[0] + uint64_t{256} * (data[1] % 8);
  const uint64_t width = data[1] < 128 ? 2 : 4;
  // The copy ends where the input ends, so that the address sanitizer finds reads beyond it.
  const auto input = std::as_bytes(std::span(data + 2, size - 2));
  const std::vector<std::byte> sparse(input.begin(), input.end());
  if (!may_be_sparse(sparse.size(), elements, width) || !is_sparse(sparse, elements, width))
    return 0;
  std::vector<std::byte> numbers(elements * width);
  decode_sparse(sparse, width, numbers);
  // A number that the form has may be zero.
  std::vector<std::byte> again(sparse_bytes(numbers, width));
  if (again.size() > sparse.size()) std::abort();
  encode_sparse(numbers, width, again);
  if (!is_sparse(again, elements, width)) std::abort();
  return 0;
}
