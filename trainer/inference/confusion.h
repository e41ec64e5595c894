#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"

namespace poseidon::trainer {

/// Confusion matrix of a classifier. Only pairs that occur use memory.
class Confusion {
 public:
  /// Adds a row of `classes` scores for each label. The predicted class is the first one with the
  /// highest score. A NaN score of another class than class 0 is never the highest. If class 0 has
  /// a NaN score, class 0 is predicted.
  void add(std::span<const float> scores, int64_t classes, std::span<const int32_t> labels);

  /// {"classes": [{"class", "samples", "correct", "accuracy"}], "confusions": [{"class",
  /// "taken_for", "samples"}]}, with the most frequent confusions first.
  Json json(const std::vector<std::string>& names) const;

 private:
  std::map<std::pair<int32_t, int32_t>, int64_t> samples_;  ///< by label and predicted class
};

}  // namespace poseidon::trainer
