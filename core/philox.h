#pragma once

#include <array>
#include <cstdint>

namespace poseidon {

/// Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11): four
/// random words as a pure function of a 128-bit counter and a 64-bit key. All random numbers that
/// affect data or training come from this function. Key and counter are made from the seed and from
/// the use of the number, such as the purpose, the epoch and the sample. Therefore the numbers do
/// not depend on threads, workers or the order of calls.
using PhiloxBlock = std::array<uint32_t, 4>;

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;
/// Added to the halves of the key after each round.
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u, kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// The purposes of random numbers. Each purpose has separate keys.
enum class RandomPurpose : uint32_t {
  kInitialization,
  kShuffle,
  kAugmentation,
  kDropout,
  kGeneration,
  kPooling,
  kMixing,
  kRounding
};

/// A stream of random numbers. Its key comes from the seed, the purpose and `stream`; `index` and
/// the block number form the counter. `stream` and `index` identify the instance, for example
/// (layer, sample) or (epoch, sample).
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t stream, uint64_t index)
      : key_(mix(seed, static_cast<uint64_t>(purpose), stream)), index_(index) {}

  /// The four words of block `block`. Calls may come in any order.
  constexpr PhiloxBlock at(uint64_t block) const {
    return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                   static_cast<uint32_t>(index_), static_cast<uint32_t>(index_ >> 32)},
                  key_);
  }

  /// For code that computes several blocks at once.
  constexpr uint64_t key() const { return key_; }
  constexpr uint64_t index() const { return index_; }

  uint32_t next_word() {
    if (used_ == 4) {
      words_ = at(block_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [0, 1), 24 bits.
  float next_uniform() { return unit(next_word()); }
  /// Uniform in [low, high).
  float next_uniform(float low, float high) { return low + (high - low) * next_uniform(); }
  /// Uniform integer in [0, bound), bound >= 1; the bias is below 2^-32 * bound.
  uint32_t next_below(uint32_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(next_word()) * bound) >> 32);
  }

  static constexpr float unit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

 private:
  /// Hashes the three numbers into a key: one step of SplitMix64 for each number.
  static constexpr uint64_t mix(uint64_t seed, uint64_t purpose, uint64_t stream) {
    uint64_t state = 0;
    for (uint64_t part : {seed, purpose, stream}) {
      state += part + 0x9E3779B97F4A7C15u;
      state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
      state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
      state ^= state >> 31;
    }
    return state;
  }

  uint64_t key_;
  uint64_t index_;
  uint64_t block_ = 0;
  PhiloxBlock words_{};
  unsigned used_ = 4;
};

}  // namespace poseidon
