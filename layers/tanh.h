#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// The hyperbolic tangent, element by element.
class Tanh final : public Definition {
 public:
  std::string_view type() const override { return "tanh"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
