#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

enum class EltwiseOperation : int { kSum, kProduct, kMaximum };

/// Combines two or more inputs of equal shape element by element. If several inputs have the
/// maximum, only the first of these inputs receives the gradient.
class Eltwise final : public Definition {
 public:
  std::string_view type() const override { return "eltwise"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  EltwiseOperation operation = EltwiseOperation::kSum;
};

}  // namespace poseidon::layers
