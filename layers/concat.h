#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Lays its inputs one after another along the channels.
class Concat final : public Definition {
 public:
  std::string_view type() const override { return "concat"; }
  void describe(Fields&) override {}
  Shape infer(std::span<const Shape> inputs) override;
};

}  // namespace poseidon::layers
