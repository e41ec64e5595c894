#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// (n, c, h, w) to (n, c * h * w), in canonical order.
class Flatten final : public Definition {
 public:
  std::string_view type() const override { return "flatten"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
