#pragma once

#include <cstdint>
#include <cstring>

#include "core/philox.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/// The random words of a block of integers, computed for several Philox blocks at once.
namespace poseidon::comm {

inline constexpr uint64_t kPhiloxBlocks = 32;  ///< Philox blocks of one block of integers

/// words[w][j] is word w of Philox block j.
struct BlockWords {
  alignas(64) uint32_t words[4][kPhiloxBlocks];
};

/// Computes the words of a stream. A vector has 64-bit lanes, one for each Philox block. Only the
/// lower half of a lane counts. The upper half may hold any bits.
class BlockWordSource {
 public:
  explicit BlockWordSource(const RandomStream& random) : index_(random.index()) {
    auto key0 = static_cast<uint32_t>(random.key());
    auto key1 = static_cast<uint32_t>(random.key() >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      keys0_[round] = Lanes{} + key0;
      keys1_[round] = Lanes{} + key1;
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
  }

  /// The words of Philox blocks from `first` on, a multiple of kPhiloxBlocks.
  [[gnu::always_inline]] void words(uint64_t first, BlockWords& out) const {
    for (uint64_t j = 0; j < kPhiloxBlocks; j += kVectors * kLanes) {
      Lanes counters[kVectors][4];
      begin(first + j, counters);
      run_rounds(counters);
      for (int pair = 0; pair < kVectors; pair += 2)
        for (int word = 0; word < 4; ++word) {
          const Lanes both = (counters[pair][word] & kLowerHalf) | counters[pair + 1][word] << 32;
          std::memcpy(&out.words[word][j + pair * kLanes], &both, sizeof both);
        }
    }
  }

 private:
#if defined(__AVX512F__)
  static constexpr int kLanes = 8;
#elif defined(__AVX2__)
  static constexpr int kLanes = 4;
#else
  static constexpr int kLanes = 2;
#endif
  /// Vectors that run_rounds() computes at once, to overlap the latency of products.
  static constexpr int kVectors = kLanes == 8 ? 2 : 4;
  static constexpr uint64_t kLowerHalf = 0xffffffff;
  typedef uint64_t Lanes __attribute__((vector_size(8 * kLanes)));

  /// Vectors 0 and 1 have the even and the odd ones of 2 * kLanes consecutive blocks, and so on.
  /// So the words of two vectors in memory order need no permutation.
  [[gnu::always_inline]] void begin(uint64_t first, Lanes (&counters)[kVectors][4]) const {
    Lanes even{};
    for (int lane = 0; lane < kLanes; ++lane) even[lane] = static_cast<uint64_t>(2 * lane);
    for (int v = 0; v < kVectors; ++v) {
      counters[v][0] = even + (first + static_cast<uint64_t>(v / 2 * 2 * kLanes + v % 2));
      counters[v][1] = Lanes{} + (first >> 32);
      counters[v][2] = Lanes{} + index_;
      counters[v][3] = Lanes{} + (index_ >> 32);
    }
  }

  [[gnu::always_inline]] void run_rounds(Lanes (&counters)[kVectors][4]) const {
#pragma GCC unroll 10
    for (int round = 0; round < kPhiloxRounds; ++round) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Lanes(&c)[4] = counters[v];
        const Lanes product0 = product(c[0], kPhiloxMultiplier0);
        const Lanes product1 = product(c[2], kPhiloxMultiplier1);
        c[0] = product1 >> 32 ^ c[1] ^ keys0_[round];
        c[1] = product1;
        c[2] = product0 >> 32 ^ c[3] ^ keys1_[round];
        c[3] = product0;
      }
    }
  }

  /// The 64-bit products of the lower halves of lanes. g++ does not find the instruction itself.
  [[gnu::always_inline]] static Lanes product(Lanes left, uint32_t right) {
    const Lanes all = Lanes{} + right;
#if defined(__AVX512F__)
    // The form without a mask causes a wrong warning of g++ 12.
    return (Lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)left, (__m512i)all);
#elif defined(__AVX2__)
    return (Lanes)_mm256_mul_epu32((__m256i)left, (__m256i)all);
#elif defined(__x86_64__)
    return (Lanes)_mm_mul_epu32((__m128i)left, (__m128i)all);
#else
    return (left & kLowerHalf) * all;
#endif
  }

  uint64_t index_;
  Lanes keys0_[kPhiloxRounds], keys1_[kPhiloxRounds];
};

}  // namespace poseidon::comm
