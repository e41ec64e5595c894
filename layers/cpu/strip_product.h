#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/cpu/product.h"

/// Tiles of Poseidon's matrix product (layers/cpu/product.h) from operands in strips.
///
/// A matrix in strips is stored as [columns / kStrip][rows][kStrip]. Such a matrix is the left
/// operand of a product if its columns are summed, and the right operand if its rows are summed. So
/// both a linear layer's forward pass and its backward data pass read the weight in place.
namespace poseidon::layers::cpu::product {

inline constexpr int64_t kStrip = std::max<int64_t>(kColumns, 16);
inline constexpr int64_t kFloatsOfLine = 16;                      ///< of a cache line
inline constexpr int64_t kLinesOfStrip = kStrip / kFloatsOfLine;  ///< cache lines of a strip's row

/// A tile C = start + A B, or relu(start + A B), of at most kRows rows and kColumns columns.
struct StripTile {
  const float* a;  ///< first strip of A, at the tile's first row
  int64_t a_step;  ///< floats from one strip of A to the next
  const float* b;  ///< strip of B, at the tile's first column
  int64_t depth;   ///< summed elements
  float* c;        ///< dense rows, `c_step` floats apart
  int64_t c_step;
  int64_t rows, columns;
  const float* sums = nullptr;    ///< start with these sums; rows kStrip floats apart
  const float* values = nullptr;  ///< else with one value for each column; else with zero
  const float* relu = nullptr;    ///< negative slope of a leaky relu; nullptr: no relu
  /// Memory that a later tile reads. While the tile computes summed element k of a strip, it
  /// prefetches the cache line at ahead + strip * ahead_step + k * kFloatsOfLine.
  const float* ahead;
  int64_t ahead_step;
};

void multiply_strips(const StripTile& tile);

}  // namespace poseidon::layers::cpu::product
