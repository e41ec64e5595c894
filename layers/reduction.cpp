#include "layers/reduction.h"

namespace poseidon::layers {

void Reduction::describe(Fields& fields) {
  fields.option("operation", operation, {"sum", "asum", "sumsq", "mean"},
                "asum: sum of absolute values; sumsq: sum of squares");
  fields.number("coefficient", coefficient, Range{}, "factor on the result");
}

Shape Reduction::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  return {input.samples(), 1};
}

float Reduction::factor() const {
  const bool is_mean = operation == ReductionOperation::kMean;
  return static_cast<float>(is_mean ? coefficient / static_cast<double>(input.sample_count())
                                    : coefficient);
}

}  // namespace poseidon::layers
