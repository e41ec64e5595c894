#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Batch normalization of each channel over samples, height and width, with scale and shift (Ioffe
/// and Szegedy 2015). Training normalizes by the batch's mean and biased variance. The running
/// statistics track the mean and the unbiased variance. Testing normalizes by the running
/// statistics. The layer has one input. If the net fuses the addition of a residual into this
/// layer, the residual is the second input.
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
