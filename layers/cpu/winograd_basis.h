#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "layers/cpu/vectors.h"

/// The transformations of Winograd's method, for kLanes channels at a time. Every element of a tile
/// is a vector.
namespace poseidon::layers::cpu::winograd {

inline constexpr int kSide = 6;  ///< height and width of a tile
inline constexpr int kPoints = kSide * kSide;
inline constexpr int64_t kLanes = kLanesOfBlock;

using Float = Vectors<kLanes>::Float;
template <int n>
using Row = std::array<Float, static_cast<size_t>(n)>;

/// The basis: values of polynomials at the points 0, kA, -kA, kB, -kB and infinity. Among pairs kA,
/// kB with few digits, this pair has the smallest rounding errors: a quarter of the errors of the
/// usual pair 1, 2.
inline constexpr float kA = 0.625F, kB = 1.5F;
inline constexpr float kA2 = kA * kA, kB2 = kB * kB;
inline constexpr float kScaleOfA = 1 / (2 * kA2 * (kA2 - kB2)),
                       kScaleOfB = 1 / (2 * kB2 * (kB2 - kA2));
inline constexpr std::array<float, kSide> kScale{1 / (kA2 * kB2), kScaleOfA, kScaleOfA,
                                                 kScaleOfB,       kScaleOfB, 1};

constexpr float power(float base, size_t exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/// The values, at the points of the basis, of the polynomial with the n coefficients `c`. This
/// transformation is Lavin's A for gradients of outputs and, scaled, Lavin's G for weights.
struct TransformA {
  template <size_t n>
  Row<kSide> operator()(const std::array<Float, n>& c) const {
    Float even_a = c[0], odd_a = kA * c[1], even_b = c[0], odd_b = kB * c[1];
    for (size_t i = 2; i < n; ++i) {
      (i % 2 == 0 ? even_a : odd_a) += power(kA, i) * c[i];
      (i % 2 == 0 ? even_b : odd_b) += power(kB, i) * c[i];
    }
    return {c[0], even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, c[n - 1]};
  }
};

/// The transpose of TransformA: Lavin's A^T and, scaled, G^T.
template <int n>
struct TransformAT {
  Row<n> operator()(const Row<kSide>& v) const {
    const Float even_a = v[1] + v[2], odd_a = v[1] - v[2];
    const Float even_b = v[3] + v[4], odd_b = v[3] - v[4];
    Row<n> c;
    for (size_t i = 0; i < n; ++i)
      c[i] = i % 2 == 0 ? power(kA, i) * even_a + power(kB, i) * even_b
                        : power(kA, i) * odd_a + power(kB, i) * odd_b;
    c[0] += v[0];
    c[n - 1] += v[5];
    return c;
  }
};

/// Lavin's B^T.
struct TransformBT {
  Row<kSide> operator()(const Row<kSide>& d) const {
    const Float even_a = d[4] - kB2 * d[2], odd_a = kA * (d[3] - kB2 * d[1]);
    const Float even_b = d[4] - kA2 * d[2], odd_b = kB * (d[3] - kA2 * d[1]);
    return {kA2 * kB2 * d[0] - (kA2 + kB2) * d[2] + d[4],
            even_a + odd_a,
            even_a - odd_a,
            even_b + odd_b,
            even_b - odd_b,
            kA2 * kB2 * d[1] - (kA2 + kB2) * d[3] + d[5]};
  }
};

inline Row<kSide> scaled(Row<kSide> v) {
  for (size_t i = 0; i < kSide; ++i) v[i] *= kScale[i];
  return v;
}

/// Transforms a square of kFrom x kFrom vectors. Applies `change` to each row, and then to each
/// column of the results. row_of(y) returns a row. Calls put(x, column) with each transformed
/// column.
template <int kTo, int kFrom, class RowOf, class Change, class Put>
void both_ways(const RowOf& row_of, const Change& change, const Put& put) {
  std::array<Row<kTo>, static_cast<size_t>(kFrom)> rows;
#pragma GCC unroll kSide
  for (size_t y = 0; y < kFrom; ++y) rows[y] = change(row_of(y));
#pragma GCC unroll kSide
  for (size_t x = 0; x < kTo; ++x) {
    Row<kFrom> column;
    for (size_t y = 0; y < kFrom; ++y) column[y] = rows[y][x];
    put(x, change(column));
  }
}

}  // namespace poseidon::layers::cpu::winograd
