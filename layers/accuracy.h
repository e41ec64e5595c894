#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace poseidon::layers {

inline constexpr size_t kMaxRanks = 8;  ///< maximum number of values in `top_k`

/// For each k of `top_k`: 1 if the label is among the k best scores of the sample, else 0. Scores
/// are (n, classes) or (n, classes, 1, 1). If scores are equal, the class with the lower index
/// ranks first. If samples are mixed (StepContext::mixup_labels), the layer uses the label with the
/// larger weight. The gradient of the scores is zero.
class Accuracy final : public Definition {
 public:
  std::string_view type() const override { return "accuracy"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  /// One name for each k of `top_k`, such as "top1".
  std::vector<std::string> scalars() const override;
  int label_input() const override { return 1; }
  bool supports_mixup() const override { return true; }
  void check_labels(const StepContext& step) const override;

  std::vector<int64_t> top_k{1};

  int64_t samples = 0, classes = 0;  ///< set by infer
};

}  // namespace poseidon::layers
