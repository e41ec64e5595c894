// The part of matrix products that needs no GPU: their conversion for a library with column-major
// order.

#include <doctest/doctest.h>

#include <vector>

#include "core/error.h"
#include "layers/cuda/runtime/column_product.h"
#include "layers/cuda/runtime/library_products.h"

using namespace poseidon;
using layers::cuda::column_product;
using layers::cuda::ColumnMatrix;
using layers::cuda::ColumnProduct;
using layers::cuda::MatrixProblem;
using Numbers = std::vector<float>;

namespace {

/// Small integers, so that sums are exact.
Numbers numbers(int64_t count, int64_t seed) {
  Numbers made;
  for (int64_t i = 0; i < count; ++i)
    made.push_back(static_cast<float>((i * 7 + seed * 13) % 11 - 5));
  return made;
}

float element(const ColumnMatrix& matrix, const Numbers& memory, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  REQUIRE(row < matrix.rows);
  REQUIRE(column < matrix.columns);
  return memory.at(static_cast<size_t>(column * matrix.rows + row));
}

/// The product as BLAS computes it in column-major order, with a bias for each row.
Numbers by_columns(const ColumnProduct& product, int64_t depth, const Numbers& first,
                   const Numbers& second, const Numbers& bias) {
  Numbers result;
  for (int64_t column = 0; column < product.result.columns; ++column)
    for (int64_t row = 0; row < product.result.rows; ++row) {
      float sum = bias.at(static_cast<size_t>(row));
      for (int64_t k = 0; k < depth; ++k)
        sum += element(product.first, first, row, k) * element(product.second, second, k, column);
      result.push_back(sum);
    }
  return result;
}

/// The product as products.h defines it, in row-major order.
Numbers by_rows(const MatrixProblem& problem, const Numbers& first, const Numbers& second,
                const Numbers& bias) {
  const auto at = [](const Numbers& memory, int64_t row, int64_t column, int64_t rows,
                     int64_t columns, bool transposed) {
    return memory.at(
        static_cast<size_t>(transposed ? column * rows + row : row * columns + column));
  };
  Numbers result;
  for (int64_t row = 0; row < problem.rows; ++row)
    for (int64_t column = 0; column < problem.columns; ++column) {
      float sum = bias.at(static_cast<size_t>(column));
      for (int64_t k = 0; k < problem.depth; ++k)
        sum += at(first, row, k, problem.rows, problem.depth, problem.transpose_first) *
               at(second, k, column, problem.depth, problem.columns, problem.transpose_second);
      result.push_back(sum);
    }
  return result;
}

}  // namespace

TEST_CASE("a row-major product is expressed as a column-major product") {
  for (const bool transpose_first : {false, true})
    for (const bool transpose_second : {false, true}) {
      CAPTURE(transpose_first);
      CAPTURE(transpose_second);
      const MatrixProblem problem{.rows = 3,
                                  .columns = 5,
                                  .depth = 4,
                                  .transpose_first = transpose_first,
                                  .transpose_second = transpose_second,
                                  .bias = true};
      const Numbers first = numbers(12, 1), second = numbers(20, 2), bias = numbers(5, 3);
      // The problem's second factor is the library's first one.
      CHECK(by_columns(column_product(problem), problem.depth, second, first, bias) ==
            by_rows(problem, first, second, bias));
    }
}

TEST_CASE("without a GPU, make_library_products() reports that the GPU cannot be used") {
  try {
    const auto products = layers::cuda::make_library_products(0, {});
    MESSAGE("there is a GPU here");
    CHECK(products != nullptr);
  } catch (const RunError& error) {
    CHECK(std::string(error.what()).starts_with("GPU 0 cannot be used: "));
  }
}
