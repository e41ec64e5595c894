#include "layers/mvn.h"

#include "core/error.h"

namespace poseidon::layers {

void Mvn::describe(Fields& fields) {
  fields.boolean("across_channels", across_channels, "normalize all channels of a sample together");
  fields.boolean("variance", variance, "divide by the standard deviation");
  fields.number("epsilon", epsilon, kPositive, "added to the standard deviation");
}

Shape Mvn::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (input.rank() < 2) fail(text("expected an input with channels, got ", input.text()));
  return input;
}

}  // namespace poseidon::layers
