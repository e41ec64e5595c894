#pragma once

#include "layers/convolution.h"

namespace poseidon::layers {

/// The transpose of a convolution: its output is what that convolution's input gradient would be
/// for an output gradient that is this input; then bias. So its passes are that convolution's, with
/// those of forward and backward data exchanged.
/// Input (n, c, h, w); weight (c, outputs / groups, kernel height, kernel width); output
/// (n, outputs, (h - 1) * stride + dilated kernel - 2 pad, ...).
class Deconvolution final : public Definition, public ConvolutionKeys {
 public:
  std::string_view type() const override { return "deconvolution"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  int64_t multiply_adds() const override { return convolution.multiply_adds(); }

  /// The convolution from the output to the input, which has no bias; set by infer.
  Convolution convolution;
};

}  // namespace poseidon::layers
