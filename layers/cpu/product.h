#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "layers/cpu/vectors.h"

/// Poseidon's own product of fp32 matrices, C = A B or C += A B, in tiles whose sums stay in
/// registers.
///
/// The bits of the result are defined. Each element of C is one chain of fused multiply-adds in
/// ascending order of the summed index. If that index exceeds kDepth, partial sums pass through
/// memory. So tiles, number of threads and vector width do not change a bit. Processors of
/// x86-64-v2 have no fused multiply-add: they round each product before they add it.
///
/// The caller copies pieces of A and B to panels, which stay in the caches, and computes tiles of C
/// from the panels.
namespace poseidon::layers::cpu::product {

inline constexpr int64_t kLanes = kLanesOfBlock;

/// Rows and vectors of a tile. The registers have room for a tile's sums, two vectors of B and one
/// element of A.
#if defined(__AVX512F__)
inline constexpr int64_t kRows = 14, kVectors = 2;
#elif defined(__AVX__)
inline constexpr int64_t kRows = 6, kVectors = 2;
#else
inline constexpr int64_t kRows = 6, kVectors = 1;
#endif
inline constexpr int64_t kColumns = kVectors * kLanes;  ///< columns of a tile
inline constexpr int64_t kDepth = 320;                  ///< maximum depth of a panel

/// The order of a panel of A: [depth][kRows] or [kRows][kRowStep], according to the contiguous axis
/// of the source. kRowStep is greater than kDepth, so that rows are in different cache sets.
enum class OrderOfA : uint8_t { kByDepth, kByRows };
inline constexpr int64_t kRowStep = kDepth + 16;

/// Floats of a panel of A, and of a panel of B. The order of B is [kVectors][kDepth][kLanes].
inline constexpr int64_t kPanelOfA = kRows * kRowStep, kPanelOfB = kDepth * kColumns;

/// The number of pieces of size `of` that cover `count`.
constexpr int64_t pieces(int64_t count, int64_t of) { return (count + of - 1) / of; }

/// Copies kWidth floats in vector registers. g++ calls memmove for std::copy_n of this size.
template <int64_t kWidth>
[[gnu::always_inline]] inline void copy_row(const float* from, float* to) {
  std::array<float, static_cast<size_t>(kWidth)> row;
  std::memcpy(row.data(), from, sizeof row);
  std::memcpy(to, row.data(), sizeof row);
}

/// Copies `columns` columns and `depth` rows of a matrix to `count` panels [depth][kWidth], which
/// are `step` floats apart. The rows of the matrix are `stride` apart. Columns of the panels that
/// the matrix does not have become zero. Each row of the matrix is read once, because neighboring
/// rows of a large matrix are on different pages of memory.
template <int64_t kWidth>
void copy_panels(const float* matrix, int64_t stride, int64_t depth, int64_t columns, int64_t count,
                 float* panels, int64_t step) {
  const int64_t whole = std::min(count, columns / kWidth);
  for (int64_t k = 0; k < depth; ++k) {
    const float* row = matrix + k * stride;
    float* to = panels + k * kWidth;
    for (int64_t p = 0; p < whole; ++p) copy_row<kWidth>(row + p * kWidth, to + p * step);
    for (int64_t p = whole; p < count; ++p)
      for (int64_t i = 0; i < kWidth; ++i)
        to[p * step + i] = p * kWidth + i < columns ? row[p * kWidth + i] : 0.0F;
  }
}

/// Like copy_panels, to panels of B.
inline void copy_panels_of_b(const float* matrix, int64_t stride, int64_t depth, int64_t columns,
                             int64_t count, float* panels) {
  copy_panels<kLanes>(matrix, stride, depth, columns, count * kVectors, panels, kDepth * kLanes);
}

/// A tile of C in memory. Element (row, column) is at rows[row] + column / kLanes * vector_step +
/// column % kLanes. With column_offsets, it is at rows[row] + column_offsets[column]. Rows and
/// columns that do not exist are neither read nor written.
struct Tile {
  std::array<float*, kRows> rows{};
  int64_t row_count = 0, columns = 0;
  int64_t vector_step = kLanes;
  const int64_t* column_offsets = nullptr;
  /// Write past the caches (layers/cpu/streaming.h), for a result that is larger than they are. If
  /// a row is not aligned to 64 bytes, all of its tile is written normally. The writing thread must
  /// call finish_streaming() before another thread reads the result.
  bool streams = false;

  /// A tile with rows `row_step` floats apart. It has at most kRows of the `count` rows, and at
  /// most kColumns of the `columns` columns.
  static Tile evenly(float* data, int64_t row_step, int64_t count, int64_t columns) {
    Tile tile{.row_count = std::min(count, kRows), .columns = std::min(columns, kColumns)};
    for (int64_t row = 0; row < tile.row_count; ++row)
      tile.rows[static_cast<size_t>(row)] = data + row * row_step;
    return tile;
  }
};

/// The initial sums of a tile.
struct Start {
  bool memory = false;            ///< start with the values of C in memory
  const float* values = nullptr;  ///< else kColumns values, one for each column; nullptr: zero
};

/// Vectors of B in memory: floats between vectors of columns, and between rows. The default is a
/// copied panel. Only vectors that have columns of the tile are read.
struct PanelOfB {
  const float* data = nullptr;
  int64_t vector_step = kDepth * kLanes, depth_step = kLanes;
};

/// Computes a tile C = start + A B from panels of A and B with this depth. With `relu`, the
/// negative slope of a leaky relu, it computes C = relu(start + A B).
void multiply_tile(OrderOfA order, const float* a, PanelOfB b, int64_t depth, Start start,
                   const Tile& c, const float* relu = nullptr);
inline void multiply_tile(OrderOfA order, const float* a, const float* copied_b, int64_t depth,
                          Start start, const Tile& c, const float* relu = nullptr) {
  multiply_tile(order, a, PanelOfB{copied_b}, depth, start, c, relu);
}

}  // namespace poseidon::layers::cpu::product
