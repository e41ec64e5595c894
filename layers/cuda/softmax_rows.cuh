#pragma once

#include "layers/cuda/device_math.cuh"
#include "layers/cuda/reduce.cuh"

namespace poseidon::layers::cuda {

/// The largest value of a row, and the sum of e^(x - largest) over the row.
struct RowSum {
  float largest;
  double sum;
};

/// Computes the RowSum of a row. All threads of the row's team receive the result. The team reads
/// the row twice, the second time from the cache. A NaN in the row makes the sum NaN.
template <class Team>
POSEIDON_DEVICE RowSum sum_exponentials(const Thread& thread, typename Team::Shared& shared,
                                        const float* row, uint32_t length) {
  float largest = -INFINITY;
  for (uint32_t c = Team::member(thread); c < length; c += Team::kSize)
    largest = Maximum{}(largest, row[c]);
  largest = Team::reduce(thread, shared, largest, Maximum{});
  double sum = 0;
  for (uint32_t c = Team::member(thread); c < length; c += Team::kSize)
    sum += static_cast<double>(exponential(row[c] - largest));
  return {largest, Team::reduce(thread, shared, sum, Sum{})};
}

}  // namespace poseidon::layers::cuda
