#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Cross entropy between the softmax of the scores and the label, smoothed where asked: the target
/// is (1 - s) at the label plus s / classes everywhere. Of a mixture each label has its share of
/// the 1 - s, and the one that counts most is ranked. Scores are (n, classes) or (n, classes, 1,
/// 1). Of equal scores the first is the better one, as an argmax would pick it.
class SoftmaxLoss final : public Definition {
 public:
  std::string_view type() const override { return "softmax_loss"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  /// Whether the label has the best score, and whether one of the five best.
  std::vector<std::string> scalars() const override { return {"loss", "top1", "top5"}; }
  bool is_loss() const override { return true; }
  int label_input() const override { return 1; }
  bool takes_mixtures() const override { return true; }
  double loss_weight() const override { return weight; }

  /// A label must be a class.
  void check_labels(const StepContext& step) const override;

  double weight = 1;  ///< factor on the gradient; the reported loss of a sample is without it
  double label_smoothing = 0;

  int64_t samples = 0, classes = 0;  ///< set by infer
  bool mixed = false;                ///< set by infer: the labels have three rows
};

}  // namespace poseidon::layers
