#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Reads inputs that nobody else wants. Its output, (samples, 1), is zero; so are its gradients.
class Silence final : public Definition {
 public:
  std::string_view type() const override { return "silence"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
