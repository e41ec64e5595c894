#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Consumes inputs that no other layer reads. Its output, (samples, 1), and its gradients are zero.
class Silence final : public Definition {
 public:
  std::string_view type() const override { return "silence"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
