#pragma once

#include <cstdint>

namespace poseidon::layers::cpu {

/// The number of classes ahead of the label: classes with a greater score, and classes with an
/// equal score and a lower index. Other classes whose score is NaN are ahead too. A label whose
/// score is NaN ranks last.
inline int64_t rank_of(const float* scores, int64_t classes, int64_t label) {
  const float own = scores[label];
  int64_t ahead = 0;
  for (int64_t c = 0; c < label; ++c) ahead += !(scores[c] < own);
  for (int64_t c = label + 1; c < classes; ++c) ahead += !(scores[c] <= own);
  return ahead;
}

}  // namespace poseidon::layers::cpu
