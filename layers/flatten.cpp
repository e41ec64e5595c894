#include "layers/flatten.h"

namespace poseidon::layers {

Shape Flatten::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  return {inputs[0].samples(), inputs[0].sample_count()};
}

}  // namespace poseidon::layers
