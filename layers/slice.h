#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// Some neighbouring channels of its input. A network that splits a tensor has one such layer for
/// each part.
class Slice final : public Definition {
 public:
  std::string_view type() const override { return "slice"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  int64_t begin = 0, end = 0;  ///< end: that of the input where none is given, set by infer
};

}  // namespace poseidon::layers
