#pragma once

#include <cstdint>

#include "layers/cpu/vector_math.h"

namespace poseidon::layers::cpu {

/// The largest value of a row, and the sum of e^(x - largest) over the row. exponentiate_row()
/// writes the terms of the sum to `exponentials`, which may be the row itself.
struct RowSum {
  float largest, sum;
};

inline RowSum exponentiate_row(const float* row, float* exponentials, int64_t count) {
  float largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = largest > row[i] ? largest : row[i];
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    exponentials[i] = fast_exp(row[i] - largest);
    sum += exponentials[i];
  }
  return {largest, sum};
}

}  // namespace poseidon::layers::cpu
