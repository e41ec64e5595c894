#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

enum class ReductionOperation : int { kSum, kAbsoluteSum, kSquares, kMean };

/// One number of each sample, of all of its elements x: coefficient times the sum of x, of |x| or
/// of x * x, or times the mean of x. Output (samples, 1), fp32. The derivative of |x| at 0 is 0.
class Reduction final : public Definition {
 public:
  std::string_view type() const override { return "reduction"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// What the sum is multiplied by.
  float factor() const;
  /// Whether the derivative depends on the elements.
  bool is_linear() const {
    return operation == ReductionOperation::kSum || operation == ReductionOperation::kMean;
  }

  ReductionOperation operation = ReductionOperation::kSum;
  double coefficient = 1;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
