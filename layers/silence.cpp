#include "layers/silence.h"

namespace poseidon::layers {

Shape Silence::infer(std::span<const Shape> inputs) {
  if (inputs.empty()) fail("expected at least 1 input, got 0");
  return {inputs[0].samples(), 1};
}

}  // namespace poseidon::layers
