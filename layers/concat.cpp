#include "layers/concat.h"

#include "core/error.h"

namespace poseidon::layers {

Shape Concat::infer(std::span<const Shape> inputs) {
  if (inputs.empty()) fail("expected at least 1 input, got 0");
  Shape output = inputs[0];
  if (output.rank() < 2) fail(text("expected inputs with channels, got ", output.text()));
  output[1] = 0;
  for (const Shape& input : inputs) {
    Shape expected = inputs[0];
    if (input.rank() == expected.rank()) expected[1] = input.channels();
    if (!(input == expected))
      fail(text("inputs may differ only in their channels, got ", inputs[0].text(), " and ",
                input.text()));
    output[1] += input.channels();
  }
  return output;
}

}  // namespace poseidon::layers
