#pragma once

#include "layers/cuda/reduce.cuh"

namespace poseidon::layers::cuda {

/// Returns the rank of the label's score in a row: the number of scores ahead of this score.
/// Greater scores, NaNs, and equal scores of classes with a lower index are ahead. If the label's
/// score is NaN, all other scores are ahead. All threads of the row's team receive the result.
template <class Team>
POSEIDON_DEVICE uint32_t rank_of(const Thread& thread, typename Team::Shared& shared,
                                 const float* scores, uint32_t classes, uint32_t label) {
  const float own = scores[label];
  uint32_t ahead = 0;
  for (uint32_t c = Team::member(thread); c < classes; c += Team::kSize) {
    const bool behind = c < label ? scores[c] < own : scores[c] <= own;
    ahead += c != label && !behind ? 1U : 0U;
  }
  return Team::reduce(thread, shared, ahead, Sum{});
}

}  // namespace poseidon::layers::cuda
