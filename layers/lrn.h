#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

enum class LrnRegion : int { kAcrossChannels, kWithinChannel };

/// Local response normalization (Krizhevsky et al. 2012), as Caffe defines it: y = x / (k + alpha /
/// m * sum of x^2 over the window)^beta. Across channels the window has m = `size` channels around
/// the element. Within a channel it has m = size * size positions around the element. Cells beyond
/// the edge count as zero, and m stays the same.
class Lrn final : public Definition {
 public:
  std::string_view type() const override { return "lrn"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  int64_t size = 5;
  double alpha = 1, beta = 0.75, k = 1;
  LrnRegion region = LrnRegion::kAcrossChannels;

  /// alpha / m
  double scaled_alpha() const {
    const double m = static_cast<double>(size);
    return alpha / (region == LrnRegion::kAcrossChannels ? m : m * m);
  }

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
