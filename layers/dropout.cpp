#include "layers/dropout.h"

namespace poseidon::layers {

void Dropout::describe(Fields& fields) {
  fields.number("probability", probability, between(0, 1),
                "probability of dropping an element; below 1");
}

Shape Dropout::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  if (probability >= 1) fail("\"probability\": expected a number < 1, got 1");
  return inputs[0];
}

uint32_t Dropout::threshold() const { return static_cast<uint32_t>(probability * 0x1p32); }

}  // namespace poseidon::layers
