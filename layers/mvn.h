#pragma once

#include "layers/layer.h"

/// Mean and variance normalization of each sample.
namespace poseidon::layers {

/// (x - mean) / (deviation + epsilon), or only x - mean. The mean and the biased standard deviation
/// are those of each channel of a sample over height and width, or of the whole sample. If all
/// values are equal, the output is 0. So it is always 0 if the population is one value.
class Mvn final : public Definition {
 public:
  std::string_view type() const override { return "mvn"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// The number of values that are normalized together.
  int64_t population() const { return across_channels ? input.sample_count() : input.area(); }

  bool across_channels = false;
  bool variance = true;
  double epsilon = 1e-9;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
