#pragma once

#include <array>

#include "layers/layer.h"

namespace poseidon::layers {

/// The keys of a convolution in a network file. A deconvolution has the same keys.
struct ConvolutionKeys {
  int64_t outputs = 0;
  std::array<int64_t, 2> kernel{0, 0}, stride{1, 1}, dilation{1, 1};
  Sides padding;
  int64_t groups = 1;
  bool bias = true;
  Filler weight_filler = Filler::of(FillerType::kXavier), bias_filler;
  Multipliers multipliers;

  void describe_keys(Fields& fields, std::string_view stride_doc, std::string_view padding_doc);
  /// Cells that the dilated kernel spans along an axis.
  int64_t window(size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  /// Describes an error in the keys or in the input; "" if there is none.
  std::string fault(const Shape& input) const;
  /// The specifications of the parameters: a weight of this shape and, if `bias` is set, a bias.
  std::vector<ParameterSpec> parameters_of(const Shape& weight) const;
};

/// Cross-correlation over height and width (Caffe's and cuDNN's convention), in groups, with bias.
///
/// Input (n, c, h, w). Weight (outputs, c / groups, kernel height, kernel width). Output (n,
/// outputs, (h + padding of both sides - dilated kernel) / stride + 1, ...). The quotient is
/// rounded down.
class Convolution final : public Definition, public ConvolutionKeys {
 public:
  std::string_view type() const override { return "convolution"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  std::optional<FactorShape> factors() const override;
  int64_t multiply_adds() const override;

  /// Whether the layer reads only the input cells of its positions, so that factors need no others.
  bool reads_single_cells() const;
  /// The convolution of `samples` samples whose input is the activations of factors (FactorShape):
  /// this one, or without a stride if reads_single_cells().
  Convolution of_factors(int64_t samples) const;

  Shape input, output;  ///< set by infer
};

}  // namespace poseidon::layers
