#include "layers/sigmoid.h"

namespace poseidon::layers {

Shape Sigmoid::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  return inputs[0];
}

}  // namespace poseidon::layers
