#pragma once

#include "layers/layer.h"

/// Mean and variance normalization of each sample.
namespace poseidon::layers {

/// (x - mean) / (deviation + epsilon), with the mean and the biased deviation of each sample's
/// channel over height and width, or of the whole sample; or x - mean alone. Where all values are
/// equal the output is 0, so always where one value is all there is.
class Mvn final : public Definition {
 public:
  std::string_view type() const override { return "mvn"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// The values that are normalized together.
  int64_t population() const { return across_channels ? input.sample_count() : input.area(); }

  bool across_channels = false;
  bool variance = true;
  double epsilon = 1e-9;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
