#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// exp(x) divided by its sum over the channels, at each position.
class Softmax final : public Definition {
 public:
  std::string_view type() const override { return "softmax"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
