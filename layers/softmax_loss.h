#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Cross entropy between the softmax of the scores and the label. With label smoothing s, the
/// target is (1 - s) at the label plus s / classes everywhere. If samples are mixed, the target (1
/// - s) is divided between the two labels in proportion to their weights. top1 and top5 use the
/// label with the larger weight. Scores are (n, classes) or (n, classes, 1, 1). If scores are
/// equal, the class with the lower index ranks first, as in an argmax.
class SoftmaxLoss final : public Definition {
 public:
  std::string_view type() const override { return "softmax_loss"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  /// top1: whether the label has the best score. top5: whether it has one of the five best scores.
  std::vector<std::string> scalars() const override { return {"loss", "top1", "top5"}; }
  bool is_loss() const override { return true; }
  int label_input() const override { return 1; }
  bool supports_mixup() const override { return true; }
  double loss_weight() const override { return weight; }

  /// Labels must be in [0, classes).
  void check_labels(const StepContext& step) const override;

  double weight = 1;  ///< factor on the gradient, but not on the reported loss of a sample
  double label_smoothing = 0;

  int64_t samples = 0, classes = 0;  ///< set by infer
  bool mixed = false;                ///< set by infer: the labels have three rows
};

}  // namespace poseidon::layers
