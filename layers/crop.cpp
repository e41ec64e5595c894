#include "layers/crop.h"

#include "core/error.h"

namespace poseidon::layers {

void Crop::describe(Fields& fields) {
  fields.pair("offset", offset, between(0, 1 << 20),
              "first row and column of the region in the first input");
}

Shape Crop::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 2);
  for (const Shape& each : inputs)
    if (each.rank() != 4)
      fail(text("expected inputs with height and width, got ", inputs[0].text(), " and ",
                inputs[1].text()));
  input = inputs[0];
  output = {input.samples(), input.channels(), inputs[1].height(), inputs[1].width()};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t first = offset[static_cast<size_t>(axis)], wanted = output[2 + axis];
    if (first + wanted > input[2 + axis])
      fail(text("cannot crop ", wanted, axis == 0 ? " rows" : " columns", " from offset ", first,
                ": the first input has only ", input[2 + axis], " (inputs ", inputs[0].text(),
                " and ", inputs[1].text(), ")"));
  }
  return output;
}

}  // namespace poseidon::layers
