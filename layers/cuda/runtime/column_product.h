#pragma once

#include "layers/cuda/products.h"

namespace poseidon::layers::cuda {

/// A matrix that lies in memory column by column, without gaps.
struct ColumnMatrix {
  int64_t rows = 0, columns = 0;
  bool transposed = false;  ///< its transpose is the factor
};

/// A product as libraries want it whose matrices go down columns: result = first second.
struct ColumnProduct {
  ColumnMatrix first, second, result;
};

/// What lies row by row is the transpose of what lies column by column. So the transpose of a
/// problem's result is asked for, second' first': its factors change places. The problem's bias,
/// one number for each column, is then one for each row.
inline ColumnProduct column_product(const MatrixProblem& problem) {
  const auto by_column = [](int64_t rows, int64_t columns, bool transposed) {
    return transposed ? ColumnMatrix{rows, columns, true} : ColumnMatrix{columns, rows, false};
  };
  return {.first = by_column(problem.depth, problem.columns, problem.transpose_second),
          .second = by_column(problem.rows, problem.depth, problem.transpose_first),
          .result = by_column(problem.rows, problem.columns, false)};
}

}  // namespace poseidon::layers::cuda
