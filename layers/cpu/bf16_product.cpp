#include "layers/cpu/bf16_product.h"

#include "core/cpu/instruction_set.h"

namespace poseidon::layers::cpu::product {

bool has_bf16_product() {
#ifdef __AVX512F__
  return poseidon::cpu::has_bf16_products();
#else
  return false;
#endif
}

}  // namespace poseidon::layers::cpu::product

#ifdef __AVX512F__

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "layers/cpu/lane_masks.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu::product {

namespace {

/// Enable instructions that no x86-64 level includes. The callers check that the processor has
/// them.
#define POSEIDON_BF16_VECTORS [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#define POSEIDON_BF16_TILES [[gnu::target("avx512f,avx512bw,avx512vl,amx-tile,amx-bf16")]]

constexpr int64_t kBf16Lanes = kLanesOfBlock;
constexpr int64_t kRowsOfTile = 16;  ///< rows of a tile register, of 64 bytes each

/// The operand of the instruction LDTILECFG (Intel's Software Developer's Manual, volume 2): all
/// eight tiles have 16 rows of 64 bytes.
struct TileConfiguration {
  uint8_t palette = 1;
  std::array<uint8_t, 15> reserved{};
  std::array<uint16_t, 16> bytes_of_row{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};

POSEIDON_BF16_TILES void configure_tiles() {
  alignas(64) static constexpr TileConfiguration kConfiguration;
  _tile_loadconfig(&kConfiguration);
}
POSEIDON_BF16_TILES void release_tiles() { _tile_release(); }

/// GCC's intrinsics for tiles do not tell the compiler that they read and write memory.
[[gnu::always_inline]] inline void order_memory() { asm volatile("" ::: "memory"); }

/// Multiplies kDown x kAcross tiles of sums, which are in the tile registers 0 to 3. The tiles of A
/// are in the registers 4 and 5, those of B in 6 and 7.
template <int kDown, int kAcross>
POSEIDON_BF16_TILES void multiply_tiles(Bf16Rows a, Bf16Panel b, int64_t units, Bf16Sums c) {
  const int64_t a_bytes = a.step * 2, c_bytes = c.step * 4;
  float* below = c.data + kRowsOfTile * c.step;
  order_memory();
  if (c.add) {
    _tile_loadd(0, c.data, c_bytes);
    if constexpr (kAcross > 1) _tile_loadd(1, c.data + kBf16Lanes, c_bytes);
    if constexpr (kDown > 1) _tile_loadd(2, below, c_bytes);
    if constexpr (kDown > 1 && kAcross > 1) _tile_loadd(3, below + kBf16Lanes, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kAcross > 1) _tile_zero(1);
    if constexpr (kDown > 1) _tile_zero(2);
    if constexpr (kDown > 1 && kAcross > 1) _tile_zero(3);
  }
  const Bf16* a_below = a.data + kRowsOfTile * a.step;
  for (int64_t u = 0; u < units; ++u) {
    const Bf16* right = b.data + u * kUnitOfBf16 * kBf16Lanes;
    const int64_t offset = a.offsets[u];
    _tile_loadd(6, right, 64);
    _tile_loadd(4, a.data + offset, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kDown > 1) {
      _tile_loadd(5, a_below + offset, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kAcross > 1) {
      _tile_loadd(7, right + b.step, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kDown > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c.data, c_bytes);
  if constexpr (kAcross > 1) _tile_stored(1, c.data + kBf16Lanes, c_bytes);
  if constexpr (kDown > 1) _tile_stored(2, below, c_bytes);
  if constexpr (kDown > 1 && kAcross > 1) _tile_stored(3, below + kBf16Lanes, c_bytes);
  order_memory();
}

/// Multiplies rows whose sums fit in the vector registers.
template <int kVectorsOfB>
POSEIDON_BF16_VECTORS void multiply_rows_of_bf16(Bf16Rows a, Bf16Panel b, int64_t units,
                                                 Bf16Sums c) {
  constexpr int kRowsInRegisters = 8;
  __m512 sums[kRowsInRegisters][kVectorsOfB];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRowsInRegisters; ++r)
    for (int64_t v = 0; v < kVectorsOfB; ++v)
      sums[r][v] =
          c.add ? _mm512_loadu_ps(c.data + r * c.step + v * kBf16Lanes) : _mm512_setzero_ps();
  for (int64_t u = 0; u < units; ++u) {
    const Bf16* left = a.data + a.offsets[u];
    for (int64_t k = 0; k < kUnitOfBf16; k += 2, b.data += 2 * kBf16Lanes) {
      __m512i right[kVectorsOfB];
      for (int64_t v = 0; v < kVectorsOfB; ++v) right[v] = _mm512_loadu_si512(b.data + v * b.step);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRowsInRegisters; ++r) {
        int32_t pair = 0;
        std::memcpy(&pair, left + r * a.step + k, sizeof pair);
        __m512i broadcast = _mm512_set1_epi32(pair);
#ifdef __clang__
        asm("" : "+v"(broadcast));  // clang 16 crashes if it merges this into the product
#endif
        for (int64_t v = 0; v < kVectorsOfB; ++v)
          sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)broadcast, (__m512bh)right[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRowsInRegisters; ++r)
    for (int64_t v = 0; v < kVectorsOfB; ++v)
      _mm512_storeu_ps(c.data + r * c.step + v * kBf16Lanes, sums[r][v]);
}

/// Interleaves the 16-bit elements of the halves of a vector.
__m512i interleave_halves(__m512i halves) {
  alignas(64) static constexpr std::array<uint16_t, 32> kOrder{
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder.data()), halves);
}

}  // namespace

void interleave(const Bf16* first, const Bf16* second, Bf16* to) {
  using V = Vectors<kLanesOfBlock>;
  const auto wide = [](const Bf16* row) {
    return __builtin_convertvector(load<V::Place>(reinterpret_cast<const uint16_t*>(row)), V::Bits);
  };
  store(reinterpret_cast<uint32_t*>(to), wide(first) | wide(second) << 16);
}

void interleave_rounded(const float* rows, int64_t count, Bf16* to) {
  auto* pairs = reinterpret_cast<uint32_t*>(to);
  for (int64_t row = 0; row < count; row += 2, rows += 2 * kBf16Lanes, pairs += kBf16Lanes) {
    const auto low = rounded_to_bf16(load<VectorOfBlock>(rows));
    const auto high =
        row + 1 < count ? rounded_to_bf16(load<VectorOfBlock>(rows + kBf16Lanes)) : low ^ low;
    store(pairs, low | high << 16);
  }
  const int64_t all = (count + kUnitOfBf16 - 1) / kUnitOfBf16 * kUnitOfBf16;
  std::fill_n(pairs, (all - count) / 2 * kBf16Lanes, 0U);
}

void transpose_bf16(const Bf16* rows, int64_t count, Bf16* to, int64_t step) {
  for (int64_t row = 0; row < count; row += 2 * kBf16Lanes) {
    VectorOfBlock square[kLanesOfBlock];
#pragma GCC unroll 16
    for (int64_t pair = 0; pair < kBf16Lanes; ++pair)
      square[pair] = std::bit_cast<VectorOfBlock>(
          interleave_halves(_mm512_loadu_si512(rows + (row + 2 * pair) * kBf16Lanes)));
    transpose_square(square);
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kBf16Lanes; ++lane)
      _mm512_storeu_ps(to + lane * step + row, square[lane]);
  }
}

Bf16Multiplier::Bf16Multiplier() {
  static const bool has_tiles = poseidon::cpu::has_amx_products();
  uses_tiles_ = has_tiles;
  if (uses_tiles_) configure_tiles();
}

Bf16Multiplier::~Bf16Multiplier() {
  if (uses_tiles_) release_tiles();
}

void Bf16Multiplier::multiply(Bf16Rows a, int64_t rows, Bf16Panel b, int64_t vectors, int64_t units,
                              Bf16Sums c) const {
  if (uses_tiles_) {
    if (rows > kRowsOfTile)
      vectors > 1 ? multiply_tiles<2, 2>(a, b, units, c) : multiply_tiles<2, 1>(a, b, units, c);
    else
      vectors > 1 ? multiply_tiles<1, 2>(a, b, units, c) : multiply_tiles<1, 1>(a, b, units, c);
    return;
  }
  for (int64_t row = 0; row < rows; row += 8) {
    const Bf16Rows left{a.data + row * a.step, a.step, a.offsets};
    const Bf16Sums sums{c.data + row * c.step, c.step, c.add};
    vectors > 1 ? multiply_rows_of_bf16<2>(left, b, units, sums)
                : multiply_rows_of_bf16<1>(left, b, units, sums);
  }
}

}  // namespace poseidon::layers::cpu::product

#endif
