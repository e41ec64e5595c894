#include "data/order.h"

#include "core/error.h"
#include "core/philox.h"

namespace poseidon::data {

namespace {

constexpr int kRounds = 8;

/// The 32-bit finalizer of MurmurHash3.
uint32_t mixed(uint32_t value) {
  value = (value ^ (value >> 16)) * 0x85EBCA6Bu;
  value = (value ^ (value >> 13)) * 0xC2B2AE35u;
  return value ^ (value >> 16);
}

}  // namespace

Order::Order(int64_t samples, uint64_t seed, bool shuffle)
    : samples_(samples), seed_(seed), shuffle_(shuffle) {
  check(samples >= 1 && samples <= (int64_t{1} << 60), "an order needs 1 to 2^60 samples");
  while ((int64_t{1} << (2 * half_bits_)) < samples_) ++half_bits_;
}

OrderedSample Order::at(int64_t position) const {
  const int64_t epoch = position / samples_, place = position % samples_;
  return {epoch, shuffle_ ? permuted(epoch, place) : place};
}

// A Feistel network is a permutation of the integers of 2 * half_bits_ bits for any round function.
// The loop applies the network again until the value is below samples_. This cycle walking makes
// the result a permutation of the samples (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains"). The loop has at most 4 iterations on average.
int64_t Order::permuted(int64_t epoch, int64_t place) const {
  const RandomStream random(seed_, RandomPurpose::kShuffle, static_cast<uint64_t>(epoch), 0);
  const PhiloxBlock keys[] = {random.at(0), random.at(1)};
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half_bits_) - 1);
  uint64_t value = static_cast<uint64_t>(place);
  do {
    uint32_t left = static_cast<uint32_t>(value >> half_bits_);
    uint32_t right = static_cast<uint32_t>(value) & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      const uint32_t key = keys[round / 4][round % 4];
      const uint32_t next = left ^ (mixed(mixed(right ^ key) + key) & mask);
      left = right;
      right = next;
    }
    value = (static_cast<uint64_t>(left) << half_bits_) | right;
  } while (value >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(value);
}

}  // namespace poseidon::data
