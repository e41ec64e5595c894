#pragma once

#include "layers/convolution.h"

namespace poseidon::layers {

/// The transpose of `convolution`, with bias. The forward pass is the backward data pass of
/// `convolution`: it treats the input as an output gradient, and computes an input gradient. The
/// backward data pass is the forward pass of `convolution`.
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
