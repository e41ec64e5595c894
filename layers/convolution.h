#pragma once

#include <array>

#include "layers/layer.h"

namespace poseidon::layers {

/// Cross-correlation over height and width (Caffe's and cuDNN's convention), in groups, with bias.
/// Input (n, c, h, w); weight (outputs, c / groups, kernel height, kernel width); output
/// (n, outputs, (h + 2 pad - dilated kernel) / stride + 1, ...).
class Convolution final : public Definition {
 public:
  std::string_view type() const override { return "convolution"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  int64_t multiply_adds() const override;

  int64_t outputs = 0;
  std::array<int64_t, 2> kernel{0, 0}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
  bool bias = true;
  Filler weight_filler = Filler::of(FillerType::kXavier), bias_filler;
  Multipliers multipliers;

  Shape input, output;  ///< set by infer
};

}  // namespace poseidon::layers
