#pragma once

#include "layers/cuda/products.h"

namespace poseidon::layers::cuda {

/// A dense column-major matrix.
struct ColumnMatrix {
  int64_t rows = 0, columns = 0;
  bool transposed = false;  ///< the factor is the transpose of this matrix
};

/// result = first * second, in the form that column-major libraries expect.
struct ColumnProduct {
  ColumnMatrix first, second, result;
};

/// Converts a row-major problem. In memory, a row-major matrix equals its transpose in column-major
/// order. So the library computes result' = second' * first', where ' marks a transpose. It
/// receives the factors in exchanged order. The bias, one value for each column, becomes one value
/// for each row.
inline ColumnProduct column_product(const MatrixProblem& problem) {
  const auto by_column = [](int64_t rows, int64_t columns, bool transposed) {
    return transposed ? ColumnMatrix{rows, columns, true} : ColumnMatrix{columns, rows, false};
  };
  return {.first = by_column(problem.depth, problem.columns, problem.transpose_second),
          .second = by_column(problem.rows, problem.depth, problem.transpose_first),
          .result = by_column(problem.rows, problem.columns, false)};
}

}  // namespace poseidon::layers::cuda
