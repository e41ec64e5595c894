#include "layers/relu.h"

namespace poseidon::layers {

void Relu::describe(Fields& fields) {
  fields.number("slope", slope, at_least(0), "factor on negative values (leaky relu)");
}

Shape Relu::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  return inputs[0];
}

}  // namespace poseidon::layers
