#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// max(x, 0) + slope * min(x, 0). A slope of 0 or more keeps the sign, so that backward needs only
/// the output.
class Relu final : public Definition {
 public:
  std::string_view type() const override { return "relu"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  double slope = 0;  ///< factor on negative values
};

}  // namespace poseidon::layers
