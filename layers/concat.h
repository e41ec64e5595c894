#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Concatenates its inputs along the channels.
class Concat final : public Definition {
 public:
  std::string_view type() const override { return "concat"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
