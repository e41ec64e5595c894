#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Base class of losses that sum over the elements of a sample (layers/loss_rules.h). The inputs
/// are the values, then targets of the same size if has_targets(), then labels if reads_labels().
class ElementLoss : public Definition {
 public:
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<std::string> scalars() const override { return {"loss"}; }
  bool is_loss() const override { return true; }
  double loss_weight() const override { return weight; }
  int label_input() const override { return reads_labels() ? (has_targets() ? 2 : 1) : -1; }
  /// If has_targets() is false, labels must be in [0, elements).
  void check_labels(const StepContext& step) const override;

  /// Whether the second input has a target for each value. If not, the target is 1 at the label and
  /// 0 elsewhere.
  virtual bool has_targets() const { return true; }
  virtual bool reads_labels() const { return false; }

  double weight = 1;  ///< factor on the gradient, but not on the reported loss of a sample

  int64_t samples = 0, elements = 0;  ///< samples of a batch, elements of a sample; set by infer
};

/// Throws RunError at the first label that is not in [0, classes). Also checks the second labels of
/// mixed samples. The message contains layer, sample and label.
void check_classes(const Definition& definition, const StepContext& step, int64_t classes);

/// Half the squared distance between values and targets.
class EuclideanLoss final : public ElementLoss {
 public:
  std::string_view type() const override { return "euclidean_loss"; }
};

/// Cross entropy between the logistic function of each score and its target, a probability.
class SigmoidLoss final : public ElementLoss {
 public:
  std::string_view type() const override { return "sigmoid_loss"; }
};

/// Contrastive loss of the distance between a sample's values and targets. If the label is not 0,
/// the loss grows with the distance. Else the loss grows as the distance falls below `margin`. With
/// `legacy`, the squared distance is compared with `margin`.
class ContrastiveLoss final : public ElementLoss {
 public:
  std::string_view type() const override { return "contrastive_loss"; }
  void describe(Fields& fields) override;
  bool reads_labels() const override { return true; }
  void check_labels(const StepContext&) const override {}

  double margin = 1;
  bool legacy = false;
};

/// Hinge loss: the sum of the distances by which scores are below 1 at the label, or above -1 at
/// the other classes. With Norm::kL2: the sum of the squares of these distances.
class HingeLoss final : public ElementLoss {
 public:
  enum class Norm : int { kL1, kL2 };

  std::string_view type() const override { return "hinge_loss"; }
  void describe(Fields& fields) override;
  bool has_targets() const override { return false; }
  bool reads_labels() const override { return true; }

  Norm norm = Norm::kL1;
};

/// Minus the logarithm of the label's probability. The input has probabilities.
class MultinomialLoss final : public ElementLoss {
 public:
  std::string_view type() const override { return "multinomial_loss"; }
  bool has_targets() const override { return false; }
  bool reads_labels() const override { return true; }
};

}  // namespace poseidon::layers
