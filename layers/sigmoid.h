#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// 1 / (1 + exp(-x)), element by element.
class Sigmoid final : public Definition {
 public:
  std::string_view type() const override { return "sigmoid"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
