#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Batch normalization over samples, height and width of each channel, with scale and shift (Ioffe
/// and Szegedy 2015). In training it normalizes by the batch's mean and biased variance, and
/// contributes the mean and the unbiased variance to the running statistics; in testing it uses
/// those. One input; where it takes over the addition of a residual, that is the second.
class BatchNorm final : public Definition {
 public:
  std::string_view type() const override { return "batch_norm"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StatisticSpec> statistics() const override;

  double epsilon = 1e-5;
  double momentum = 0.1;
  Filler scale_filler = Filler::constant(1), shift_filler;
  Multipliers multipliers;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
