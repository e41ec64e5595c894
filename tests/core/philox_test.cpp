#include "core/philox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace poseidon;

// The known answers published with the Random123 library (kat_vectors, philox4x32 10 rounds).
TEST_CASE("philox: blocks equal the published known answers") {
  CHECK(philox({0, 0, 0, 0}, 0) == PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, 0xffffffffffffffffu) ==
        PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822u) ==
        PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("a stream is a function of seed, purpose, stream and index") {
  const auto first = [](uint64_t seed, RandomPurpose purpose, uint64_t stream, uint64_t index) {
    return RandomStream(seed, purpose, stream, index).at(0);
  };
  const PhiloxBlock base = first(1, RandomPurpose::kDropout, 2, 3);
  CHECK(base == first(1, RandomPurpose::kDropout, 2, 3));
  CHECK(base != first(2, RandomPurpose::kDropout, 2, 3));
  CHECK(base != first(1, RandomPurpose::kShuffle, 2, 3));
  CHECK(base != first(1, RandomPurpose::kDropout, 3, 3));
  CHECK(base != first(1, RandomPurpose::kDropout, 2, 4));
  // Seed and stream are not interchangeable.
  CHECK(first(5, RandomPurpose::kDropout, 9, 0) != first(9, RandomPurpose::kDropout, 5, 0));
}

TEST_CASE("next_word() returns words in block order, and at() returns any block") {
  RandomStream stream(7, RandomPurpose::kGeneration, 0, 0);
  std::vector<uint32_t> words;
  for (int i = 0; i < 8; ++i) words.push_back(stream.next_word());
  const PhiloxBlock second = stream.at(1), first = stream.at(0);
  CHECK(std::equal(first.begin(), first.end(), words.begin()));
  CHECK(std::equal(second.begin(), second.end(), words.begin() + 4));
}

TEST_CASE("uniform numbers cover [0, 1) and have a mean of 0.5") {
  RandomStream stream(7, RandomPurpose::kGeneration, 1, 0);
  constexpr int kCount = 100000;
  double sum = 0;
  float least = 1, most = 0;
  for (int i = 0; i < kCount; ++i) {
    const float value = stream.next_uniform();
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  CHECK(least >= 0.0f);
  CHECK(least < 0.001f);
  CHECK(most < 1.0f);
  CHECK(most > 0.999f);
  CHECK(sum / kCount == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("bounded integers reach every value below the bound and none above") {
  RandomStream stream(7, RandomPurpose::kGeneration, 2, 0);
  std::set<uint32_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(stream.next_below(6));
  CHECK(seen == std::set<uint32_t>{0, 1, 2, 3, 4, 5});
  CHECK(stream.next_below(1) == 0);
}

TEST_CASE("unit() maps the smallest and the largest word into [0, 1)") {
  CHECK(RandomStream::unit(0) == 0.0f);
  CHECK(RandomStream::unit(0xffffffffu) < 1.0f);
}
