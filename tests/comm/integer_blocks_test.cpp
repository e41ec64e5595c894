// Blocks of integers: encoding, exact sums, rounding, and hostile bytes.

#include "comm/wire/integer_blocks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace poseidon;
using namespace poseidon::comm;

namespace {

const RandomStream kBlockRandom(3, RandomPurpose::kMixing, 5, 7);

std::vector<std::byte> encoded_blocks(const std::vector<float>& values, uint64_t first = 0) {
  std::vector<std::byte> out(bytes_of_blocks(values.size(), 1));
  encode_blocks(values, first, kBlockRandom, out.data());
  return out;
}

std::vector<float> decoded_blocks(const std::vector<std::byte>& blocks, uint64_t elements) {
  std::vector<float> out(elements);
  decode_blocks(blocks.data(), out);
  return out;
}

std::vector<float> random_gradients(uint64_t elements, uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> out(elements);
  for (float& each : out) each = random.next_uniform(-1, 1) * random.next_uniform();
  return out;
}

}  // namespace

TEST_CASE("integer blocks: decoded values differ by less than the unit of their block") {
  for (const uint64_t elements : {1, 255, 256, 257, 65536 + 3}) {
    const auto values = random_gradients(elements, elements);
    const auto blocks = encoded_blocks(values);
    CHECK(length_of_blocks(blocks, elements) == blocks.size());
    const auto decoded = decoded_blocks(blocks, elements);
    for (uint64_t i = 0; i < elements; ++i) REQUIRE(std::abs(decoded[i] - values[i]) < 1.0f / 64);
  }
}

TEST_CASE("integer blocks: a sum is exact, and its rounding keeps the values that fit") {
  const auto values = random_gradients(1000, 1);
  const auto blocks = encoded_blocks(values);
  std::vector<std::byte> sum(bytes_of_blocks(1000, 8)), rounded(bytes_of_blocks(1000, 1));
  sum.resize(add_blocks(blocks.data(), blocks.data(), 1000, sum.data()));
  CHECK(length_of_blocks(sum, 1000) == sum.size());
  round_blocks(sum.data(), 1000, 0, kBlockRandom, rounded.data());
  const auto once = decoded_blocks(blocks, 1000);
  const auto twice = decoded_blocks(sum, 1000), again = decoded_blocks(rounded, 1000);
  for (size_t i = 0; i < 1000; ++i) {
    REQUIRE(twice[i] == 2 * once[i]);
    REQUIRE(again[i] == twice[i]);
  }
}
