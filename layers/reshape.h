#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Changes the shape of samples. The number of elements and their canonical order do not change.
/// The number of samples does not change.
class Reshape final : public Definition {
 public:
  std::string_view type() const override { return "reshape"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// The shape of a sample: features, or channels, height and width. 0: the input's extent. -1, at
  /// most once: the extent for which the number of elements does not change.
  std::vector<int64_t> shape;
};

}  // namespace poseidon::layers
