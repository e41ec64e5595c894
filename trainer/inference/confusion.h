#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"

namespace poseidon::trainer {

/// Confusion matrix of a classifier. Only pairs of classes that occur use memory.
class Confusion {
 public:
  /// Adds samples: for each label a row of `classes` scores. The predicted class is the first one
  /// with the highest score. NaN is below all scores, except that class 0 is predicted if its score
  /// is NaN.
  void add(std::span<const float> scores, int64_t classes, std::span<const int32_t> labels);

  /// Returns {"classes": [{"class", "samples", "correct", "accuracy"}], "confusions": [{"class",
  /// "taken_for", "samples"}]}, with the most frequent confusions first. `names`: class names by
  /// label.
  Json json(const std::vector<std::string>& names) const;

 private:
  std::map<std::pair<int32_t, int32_t>, int64_t> samples_;  ///< by label and predicted class
};

}  // namespace poseidon::trainer
