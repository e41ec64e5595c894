#pragma once

#include <vector>

#include "layers/layer.h"

namespace poseidon::layers {

/// The loss of a sample is -sum over classes of H[label][class] * ln(p[class]), where p is the
/// softmax of the scores. H[label][class] is the weight of a class for a label. If H is the
/// identity, the loss is the cross entropy of softmax_loss. Scores are (n, classes) or (n, classes,
/// 1, 1).
class InfogainLoss final : public Definition {
 public:
  std::string_view type() const override { return "infogain_loss"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<std::string> scalars() const override { return {"loss"}; }
  bool is_loss() const override { return true; }
  int label_input() const override { return 1; }
  double loss_weight() const override { return weight; }
  /// Labels must be in [0, classes).
  void check_labels(const StepContext& step) const override;

  double weight = 1;           ///< factor on the gradient, but not on the reported loss of a sample
  std::vector<double> matrix;  ///< H, row by row; classes * classes numbers

  int64_t samples = 0, classes = 0;  ///< set by infer
  std::vector<float> rows;           ///< `matrix` in fp32, one row for each label
};

}  // namespace poseidon::layers
