#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Fully connected layer: output (n, outputs) = input (n, inputs) x weight^T + bias. The weight is
/// (outputs, inputs). If the input has height and width, the layer reads its values in canonical
/// order.
class Linear final : public Definition {
 public:
  std::string_view type() const override { return "linear"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;
  std::vector<ParameterSpec> parameters() const override;
  std::optional<FactorShape> factors() const override {
    return FactorShape{
        .deltas = outputs, .activations = inputs, .bias = bias, .multiply_adds = outputs * inputs};
  }
  int64_t multiply_adds() const override { return samples * inputs * outputs; }

  int64_t outputs = 0;
  bool bias = true;
  Filler weight_filler = Filler::of(FillerType::kXavier), bias_filler;
  Multipliers multipliers;

  int64_t samples = 0, inputs = 0;  ///< set by infer
};

}  // namespace poseidon::layers
