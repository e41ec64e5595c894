#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// A range of the input's channels. A network that splits a tensor has one slice layer for each
/// range.
class Slice final : public Definition {
 public:
  std::string_view type() const override { return "slice"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  int64_t begin = 0, end = 0;  ///< [begin, end); infer sets an end of 0 to the input's channels
};

}  // namespace poseidon::layers
