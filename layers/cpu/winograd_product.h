#pragma once

#include "layers/cpu/winograd_basis.h"

namespace poseidon::layers::cpu::winograd {

/// Rows and columns of a product that are computed at a time. The rows are kRows for A B, and
/// kTransposedRows for A^T B. The sums, two vectors of B and one element of A use almost all
/// registers. kTransposedRows divides kLanes, so that these columns of A are in one vector.
#ifdef __AVX512F__
inline constexpr int64_t kRows = 8, kTransposedRows = 8;
#else
inline constexpr int64_t kRows = 6, kTransposedRows = 4;
#endif
inline constexpr int64_t kStrip = 2 * kLanes;

/// One matrix for each of the kPoints elements of Winograd's basis, which are called points. A
/// matrix is [columns / kLanes][rows][kLanes], so that a loop over the rows of one vector of
/// columns reads contiguous memory. The distance between the matrices of neighboring points is not
/// a power of two, so that elements of different points are in different cache sets.
struct Matrices {
  float* data;
  int64_t rows, columns;

  static int64_t count(int64_t rows, int64_t columns) {
    return kPoints * (rows * columns + kLanes);
  }
  float* at(size_t point, int64_t row, int64_t column) const {
    return data + static_cast<int64_t>(point) * (rows * columns + kLanes) +
           column / kLanes * row_block() + row * kLanes + column % kLanes;
  }
  int64_t row_block() const { return rows * kLanes; }  ///< from one vector of columns to the next
};

/// For one point: computes the first `rows` rows of C = A B, in the columns from `column` to the
/// end of their strip. Also computes the rows after them, to the next multiple of kRows, from
/// arbitrary values in A.
void point_product(size_t point, int64_t column, const Matrices& a, int64_t rows, const Matrices& b,
                   const Matrices& c);
/// For one point, in the columns from `column` to the end of their strip: C = A^T B, or C += A^T B
/// with `add`. Reads the first `rows` rows of A and B.
void transposed_product(size_t point, int64_t column, const Matrices& a, int64_t rows,
                        const Matrices& b, const Matrices& c, bool add);

}  // namespace poseidon::layers::cpu::winograd
