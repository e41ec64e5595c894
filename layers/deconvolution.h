#pragma once

#include "layers/convolution.h"

namespace poseidon::layers {

/// The transpose of a convolution, with bias. If this layer's input is that convolution's output
/// gradient, then this layer's output before the bias is that convolution's input gradient. So the
/// forward pass here is the convolution's backward data pass, and the backward data pass here is
/// the convolution's forward pass.
///
/// Input (n, c, h, w). Weight (c, outputs / groups, kernel height, kernel width). Output (n,
/// outputs, (h - 1) * stride + dilated kernel - padding of both sides, ...).
class Deconvolution final : public Definition, public ConvolutionKeys {
 public:
  std::string_view type() const override { return "deconvolution"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  int64_t multiply_adds() const override { return convolution.multiply_adds(); }

  /// The convolution from this layer's output to its input. It has no bias. Set by infer.
  Convolution convolution;
};

}  // namespace poseidon::layers
