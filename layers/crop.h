#pragma once

#include <array>

#include "layers/layer.h"

namespace poseidon::layers {

/// Crops the first input to the height and width of the second input. `offset` is the crop's first
/// row and column in the first input. The layer does not read the elements of the second input.
class Crop final : public Definition {
 public:
  std::string_view type() const override { return "crop"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  std::array<int64_t, 2> offset{0, 0};

  Shape input, output;  ///< set by infer
};

}  // namespace poseidon::layers
