#include "layers/cpu/winograd_product.h"

#include <type_traits>

namespace poseidon::layers::cpu::winograd {
namespace {

/// The left side of a product: `blocks` times `depth` columns. Element (row, column) of a block is
/// at row * row_step + column * column_step.
struct Left {
  const float* data;
  int64_t row_step, column_step, depth, block_step, blocks;
};

/// One vector of columns, or two neighboring ones, of the right side or of the product.
template <class Element>
struct Strip {
  Element* data;
  int64_t next;  ///< from one vector of columns to the next
  Element* at(int64_t row, int vector) const { return data + row * kLanes + vector * next; }
};

/// Computes kRows rows of C (+)= A B, for strips of kWidth vectors.
template <int64_t kRows, int kWidth, bool kAdd>
void multiply_piece(const Left& a, Strip<const float> b, const Strip<float>& c) {
  // The loops over r are unrolled, so that the sums stay in registers.
  Float sum[kRows][kWidth];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r)
    for (int w = 0; w < kWidth; ++w) sum[r][w] = kAdd ? load<Float>(c.at(r, w)) : Float{};
  for (int64_t block = 0; block < a.blocks; ++block) {
    const float* left = a.data + block * a.block_step;
    for (int64_t k = 0; k < a.depth; ++k, left += a.column_step, b.data += kLanes) {
      Float right[kWidth];
      for (int w = 0; w < kWidth; ++w) right[w] = load<Float>(b.at(0, w));
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r)
        for (int w = 0; w < kWidth; ++w) sum[r][w] += left[r * a.row_step] * right[w];
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r)
    for (int w = 0; w < kWidth; ++w) store(c.at(r, w), sum[r][w]);
}

/// Computes C (+)= A B for one point and the strip of columns that begins at `column`. left_of(row)
/// returns the left side from this row on. The product has `rows` rows, computed in steps of kRows.
template <int64_t kRows, bool kAdd, class LeftOf>
void multiply(size_t point, int64_t column, int64_t rows, const LeftOf& left_of, const Matrices& b,
              const Matrices& c) {
  const auto strip = [&](auto width) {
    const Strip<const float> right{b.at(point, 0, column), b.row_block()};
    for (int64_t row = 0; row < rows; row += kRows)
      multiply_piece<kRows, width, kAdd>(left_of(row), right,
                                         {c.at(point, row, column), c.row_block()});
  };
  if (column + kStrip <= c.columns)
    strip(std::integral_constant<int, 2>{});
  else
    strip(std::integral_constant<int, 1>{});
}

}  // namespace

void point_product(size_t point, int64_t column, const Matrices& a, int64_t rows, const Matrices& b,
                   const Matrices& c) {
  const auto left_of = [&](int64_t row) {
    return Left{.data = a.at(point, row, 0),
                .row_step = kLanes,
                .column_step = 1,
                .depth = kLanes,
                .block_step = a.row_block(),
                .blocks = a.columns / kLanes};
  };
  multiply<kRows, false>(point, column, rows, left_of, b, c);
}

void transposed_product(size_t point, int64_t column, const Matrices& a, int64_t rows,
                        const Matrices& b, const Matrices& c, bool add) {
  const auto left_of = [&](int64_t row) {
    return Left{.data = a.at(point, 0, row),
                .row_step = 1,
                .column_step = kLanes,
                .depth = rows,
                .block_step = 0,
                .blocks = 1};
  };
  if (add)
    multiply<kTransposedRows, true>(point, column, a.columns, left_of, b, c);
  else
    multiply<kTransposedRows, false>(point, column, a.columns, left_of, b, c);
}

}  // namespace poseidon::layers::cpu::winograd
