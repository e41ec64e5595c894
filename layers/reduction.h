#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

enum class ReductionOperation : int { kSum, kAbsoluteSum, kSquares, kMean };

/// Reduces all elements x of a sample to one number: coefficient times the sum of x, of |x| or of
/// x^2, or times the mean of x. The output is (samples, 1) in fp32. The derivative of |x| at 0 is
/// 0.
class Reduction final : public Definition {
 public:
  std::string_view type() const override { return "reduction"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  /// The factor on the sum of the terms: `coefficient`, for a mean divided by the number of
  /// elements.
  float factor() const;
  /// Whether the derivative is independent of the elements.
  bool is_linear() const {
    return operation == ReductionOperation::kSum || operation == ReductionOperation::kMean;
  }

  ReductionOperation operation = ReductionOperation::kSum;
  double coefficient = 1;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
