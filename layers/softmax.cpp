#include "layers/softmax.h"

#include "core/error.h"

namespace poseidon::layers {

Shape Softmax::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  if (inputs[0].rank() < 2) fail(text("expected an input with channels, got ", inputs[0].text()));
  return inputs[0];
}

}  // namespace poseidon::layers
