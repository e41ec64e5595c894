#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Gives samples another shape of the same number of elements, in canonical order. The batch stays.
class Reshape final : public Definition {
 public:
  std::string_view type() const override { return "reshape"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// Of a sample: features, or channels, height and width. 0: as the input has it; -1: what is
  /// left.
  std::vector<int64_t> shape;
};

}  // namespace poseidon::layers
