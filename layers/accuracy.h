#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace poseidon::layers {

inline constexpr size_t kMostRanks = 8;

/// Whether the label is among the k best scores, for each k of `top_k`; of a
/// mixture the label that counts most. Scores are (n, classes) or
/// (n, classes, 1, 1). Of equal scores the first is the better one. It has no gradient.
class Accuracy final : public Definition {
 public:
  std::string_view type() const override { return "accuracy"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  /// "top1"
  std::vector<std::string> scalars() const override;
  int label_input() const override { return 1; }
  bool takes_mixtures() const override { return true; }
  void check_labels(const StepContext& step) const override;

  std::vector<int64_t> top_k{1};

  int64_t samples = 0, classes = 0;  ///< set by infer
};

}  // namespace poseidon::layers
