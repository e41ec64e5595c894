#include "layers/cpu/strip_product.h"

#include <array>
#include <utility>

#include "layers/cpu/multiply_add.h"

namespace poseidon::layers::cpu::product {
namespace {

/// Computes a tile of kCount rows and kWidth whole vectors.
template <int64_t kCount, int64_t kWidth>
void multiply_whole_strips(const StripTile& tile) {
  // The loops over rows are unrolled, so that the sums stay in registers.
  Float sum[kCount][kWidth];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kCount; ++r)
    for (int64_t v = 0; v < kWidth; ++v)
      sum[r][v] = tile.sums != nullptr     ? load<Float>(tile.sums + r * kStrip + v * kLanes)
                  : tile.values != nullptr ? load<Float>(tile.values + v * kLanes)
                                           : Float{};
  const float *a = tile.a, *b = tile.b, *ahead = tile.ahead;
  const auto add = [&](int64_t k) __attribute__((always_inline)) {
    __builtin_prefetch(ahead + k * kFloatsOfLine);
    Float right[kWidth];
    for (int64_t v = 0; v < kWidth; ++v) right[v] = load<Float>(b + v * kLanes);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kCount; ++r)
      for (int64_t v = 0; v < kWidth; ++v)
        sum[r][v] = multiply_add(a[r * kStrip + k], right[v], sum[r][v]);
    b += kStrip;
  };
  int64_t left = tile.depth;
  for (; left >= kStrip; left -= kStrip, a += tile.a_step, ahead += tile.ahead_step)
#pragma GCC unroll 2
    for (int64_t k = 0; k < kStrip; ++k) add(k);
  for (int64_t k = 0; k < left; ++k) add(k);
#pragma GCC unroll 16
  for (int64_t r = 0; r < kCount; ++r)
    for (int64_t v = 0; v < kWidth; ++v)
      store(tile.c + r * tile.c_step + v * kLanes,
            tile.relu == nullptr ? sum[r][v] : leaky_relu(sum[r][v], *tile.relu));
}

using MultiplyStrips = void (*)(const StripTile& tile);

/// The code for each number of rows.
template <int64_t kWidth, int64_t... kIndices>
constexpr std::array<MultiplyStrips, sizeof...(kIndices)> code_of_rows(
    std::integer_sequence<int64_t, kIndices...>) {
  return {multiply_whole_strips<kIndices + 1, kWidth>...};
}

void multiply_vectors(const StripTile& tile) {
  constexpr std::make_integer_sequence<int64_t, kRows> kIndices;
  static constexpr auto kOneVector = code_of_rows<1>(kIndices);
  static constexpr auto kAllVectors = code_of_rows<kVectors>(kIndices);
  (tile.columns > kLanes ? kAllVectors : kOneVector)[static_cast<size_t>(tile.rows - 1)](tile);
}

}  // namespace

void multiply_strips(const StripTile& tile) {
  if (tile.columns % kLanes == 0) return multiply_vectors(tile);
  alignas(64) std::array<float, kRows * kColumns> whole;
  alignas(64) std::array<float, kColumns> values;
  StripTile copy = tile;
  copy.c = whole.data();
  copy.c_step = kColumns;
  if (tile.values != nullptr) {
    std::fill(std::copy_n(tile.values, tile.columns, values.begin()), values.end(), 0.0F);
    copy.values = values.data();
  }
  multiply_vectors(copy);
  for (int64_t r = 0; r < tile.rows; ++r)
    std::copy_n(copy.c + r * kColumns, tile.columns, tile.c + r * tile.c_step);
}

}  // namespace poseidon::layers::cpu::product
