// Arbitrary bytes as blocks of integers. The first two bytes are the number of elements. Accepted
// blocks can be added, rounded and decoded without reads outside them, and the results are blocks.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "comm/wire/integer_blocks.h"

namespace {

using namespace poseidon;
using namespace poseidon::comm;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint64_t elements = data[0] + uint64_t{256} * (data[1] % 8);
  const auto input = std::as_bytes(std::span(data + 2, size - 2));
  const auto length = length_of_blocks(input, elements);
  if (!length) return 0;
  require(*length <= input.size());

  // The copy ends where the blocks end, so that the address sanitizer finds reads beyond them.
  const std::vector<std::byte> blocks(input.begin(), input.begin() + static_cast<int64_t>(*length));
  std::vector<std::byte> sum(bytes_of_blocks(elements, 8));
  sum.resize(add_blocks(blocks.data(), blocks.data(), elements, sum.data()));
  require(length_of_blocks(sum, elements) == sum.size());
  const RandomStream random(1, RandomPurpose::kGeneration, 2, 3);
  std::vector<std::byte> rounded(bytes_of_blocks(elements, 1));
  for (const std::vector<std::byte>& each : {blocks, sum}) {
    round_blocks(each.data(), elements, 512, random, rounded.data());
    require(length_of_blocks(rounded, elements) == rounded.size());
    std::vector<float> values(elements);
    decode_blocks(each.data(), values);
  }
  return 0;
}
