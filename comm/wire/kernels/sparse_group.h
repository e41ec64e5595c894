#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// A group of numbers of the sparse form (comm/wire/sparse.h), in vector registers if the
/// instruction set allows. AVX-512 has instructions that pack and spread numbers. AVX2 and SSE
/// permute them by a table.
namespace poseidon::comm {

/// Numbers of a group; one byte of the bitmap has their bits.
inline constexpr uint64_t kGroup = 8;

template <size_t kWidth>
using SparseNumber = std::conditional_t<kWidth == 2, uint16_t, uint32_t>;

/// For each byte of a bitmap: the source lane of each lane of the result. Tables are not inline,
/// because the objects of all instruction sets would define one symbol.
using LaneTable = std::array<std::array<uint8_t, kGroup>, 256>;

/// Marks a lane of the result that is zero.
inline constexpr uint8_t kZeroLane = 0x40;

/// The lanes of the set bits, in order; then zeros.
constexpr LaneTable kPackedLanes = [] {
  LaneTable table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned to = 0;
    for (unsigned lane = 0; lane < kGroup; ++lane)
      if ((mask >> lane & 1) != 0) table[mask][to++] = static_cast<uint8_t>(lane);
  }
  return table;
}();

/// For each set bit the number of lower ones, for the others kZeroLane.
constexpr LaneTable kSpreadLanes = [] {
  LaneTable table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    uint8_t from = 0;
    for (unsigned lane = 0; lane < kGroup; ++lane)
      table[mask][lane] = (mask >> lane & 1) != 0 ? from++ : kZeroLane;
  }
  return table;
}();

/// write_packed() writes first the numbers whose bits are set, then any numbers. write_spread()
/// writes the first numbers of the group to the lanes of the set bits, and zeros to the others.
/// Both write kGroup numbers.
template <size_t kWidth>
class SparseGroup {
 public:
  explicit SparseGroup(const std::byte* numbers) {
    std::memcpy(numbers_, numbers, sizeof numbers_);
  }

  /// The bits of the numbers that are not zero.
  unsigned mask() const {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < kGroup; ++lane)
      bits |= static_cast<unsigned>(numbers_[lane] != 0) << lane;
    return bits;
  }

  void write_packed(unsigned mask, std::byte* to) const {
    Number packed[kGroup] = {};
    unsigned count = 0;
    for (unsigned lane = 0; lane < kGroup; ++lane) {
      packed[count] = numbers_[lane];
      count += mask >> lane & 1;
    }
    std::memcpy(to, packed, sizeof packed);
  }

  void write_spread(unsigned mask, std::byte* to) const {
    Number spread[kGroup];
    unsigned count = 0;
    for (unsigned lane = 0; lane < kGroup; ++lane) {
      const unsigned bit = mask >> lane & 1;
      spread[lane] = static_cast<Number>(numbers_[count] & (0U - bit));  // no branch
      count += bit;
    }
    std::memcpy(to, spread, sizeof spread);
  }

 private:
  using Number = SparseNumber<kWidth>;
  Number numbers_[kGroup];
};

#if defined(__AVX2__)

template <>
class SparseGroup<4> {
 public:
  [[gnu::always_inline]] explicit SparseGroup(const std::byte* numbers)
      : numbers_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers))) {}

  [[gnu::always_inline]] unsigned mask() const {
    const __m256i zeros = _mm256_cmpeq_epi32(numbers_, _mm256_setzero_si256());
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(zeros))) ^ 0xff;
  }

#if defined(__AVX512VL__)
  [[gnu::always_inline]] void write_packed(unsigned mask, std::byte* to) const {
    write(_mm256_maskz_compress_epi32(static_cast<__mmask8>(mask), numbers_), to);
  }
  [[gnu::always_inline]] void write_spread(unsigned mask, std::byte* to) const {
    write(_mm256_maskz_expand_epi32(static_cast<__mmask8>(mask), numbers_), to);
  }
#else
  [[gnu::always_inline]] void write_packed(unsigned mask, std::byte* to) const {
    write(_mm256_permutevar8x32_epi32(numbers_, lanes(kPackedLanes[mask])), to);
  }
  [[gnu::always_inline]] void write_spread(unsigned mask, std::byte* to) const {
    const __m256i from = lanes(kSpreadLanes[mask]);
    const __m256i used = _mm256_cmpgt_epi32(_mm256_set1_epi32(kZeroLane), from);
    write(_mm256_and_si256(_mm256_permutevar8x32_epi32(numbers_, from), used), to);
  }
#endif

 private:
  [[gnu::always_inline]] static __m256i lanes(const std::array<uint8_t, kGroup>& bytes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes.data())));
  }
  [[gnu::always_inline]] static void write(__m256i group, std::byte* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), group);
  }

  __m256i numbers_;
};

#endif

#if defined(__SSE4_1__)

template <>
class SparseGroup<2> {
 public:
  [[gnu::always_inline]] explicit SparseGroup(const std::byte* numbers)
      : numbers_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers))) {}

  [[gnu::always_inline]] unsigned mask() const {
    const __m128i zeros = _mm_cmpeq_epi16(numbers_, _mm_setzero_si128());
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(zeros, zeros)) & 0xff) ^ 0xff;
  }

#if defined(__AVX512VL__)
  [[gnu::always_inline]] void write_packed(unsigned mask, std::byte* to) const {
    const __m256i wide = _mm256_cvtepu16_epi32(numbers_);
    write(_mm256_cvtepi32_epi16(_mm256_maskz_compress_epi32(static_cast<__mmask8>(mask), wide)),
          to);
  }
  [[gnu::always_inline]] void write_spread(unsigned mask, std::byte* to) const {
    const __m256i wide = _mm256_cvtepu16_epi32(numbers_);
    write(_mm256_cvtepi32_epi16(_mm256_maskz_expand_epi32(static_cast<__mmask8>(mask), wide)), to);
  }
#else
  [[gnu::always_inline]] void write_packed(unsigned mask, std::byte* to) const {
    write(_mm_shuffle_epi8(numbers_, bytes_of_lanes(kPackedLanes[mask])), to);
  }
  [[gnu::always_inline]] void write_spread(unsigned mask, std::byte* to) const {
    write(_mm_shuffle_epi8(numbers_, bytes_of_lanes(kSpreadLanes[mask])), to);
  }
#endif

 private:
  /// The bytes 2 * lane and 2 * lane + 1 of each lane. Those of kZeroLane have the highest bit set,
  /// for which the shuffle writes zero.
  [[gnu::always_inline]] static __m128i bytes_of_lanes(const std::array<uint8_t, kGroup>& lanes) {
    static_assert(kZeroLane == 0x40);
    const __m128i wide =
        _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes.data())));
    return _mm_add_epi16(_mm_mullo_epi16(wide, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
  }
  [[gnu::always_inline]] static void write(__m128i group, std::byte* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), group);
  }

  __m128i numbers_;
};

#endif

}  // namespace poseidon::comm
