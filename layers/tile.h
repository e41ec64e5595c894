#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Repeats the input `tiles` times along the channels.
class Tile final : public Definition {
 public:
  std::string_view type() const override { return "tile"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  int64_t tiles = 1;
};

}  // namespace poseidon::layers
