#pragma once

#include <array>

#include "layers/layer.h"

namespace poseidon::layers {

enum class PoolingMethod : int { kMax, kAverage };
enum class PoolingRounding : int { kCeil, kFloor };

/// Maximum or mean over windows. With ceil rounding (Caffe's) the last window may hang over the
/// padded edge, but always begins inside the input or its left padding. The mean divides by the
/// part of the window that lies in the padded input, padding counted (Caffe's rule): a window that
/// hangs over the padded edge has a smaller divisor. Maxima never come from padding.
class Pooling final : public Definition {
 public:
  std::string_view type() const override { return "pooling"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  PoolingMethod method = PoolingMethod::kMax;
  std::array<int64_t, 2> kernel{0, 0}, stride{1, 1}, padding{0, 0};
  PoolingRounding rounding = PoolingRounding::kCeil;
  bool global = false;

  Shape input, output;  ///< set by infer

  /// Rows (axis 0) or columns (axis 1) that the last window reaches beyond the input, at least 0.
  int64_t overhang(int axis) const;
};

}  // namespace poseidon::layers
