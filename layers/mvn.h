#pragma once

#include "layers/layer.h"

/// Mean and variance normalization of each sample.
namespace poseidon::layers {

/// (x - mean) / (deviation + epsilon), or only x - mean if `variance` is false. The layer computes
/// the mean and the biased standard deviation of each channel of a sample or, with across_channels,
/// of each sample. If all values are equal, the output is 0. So the output is always 0 if
/// population() is 1.
class Mvn final : public Definition {
 public:
  std::string_view type() const override { return "mvn"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// The number of values that have a common mean.
  int64_t population() const { return across_channels ? input.sample_count() : input.area(); }

  bool across_channels = false;
  bool variance = true;
  double epsilon = 1e-9;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
