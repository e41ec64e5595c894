#include "layers/slice.h"

#include "core/error.h"

namespace poseidon::layers {

void Slice::describe(Fields& fields) {
  fields.integer("begin", begin, at_least(0), "first channel");
  fields.integer("end", end, at_least(0), "end of the channels, excluded; 0: all further channels");
}

Shape Slice::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  Shape output = inputs[0];
  if (output.rank() < 2) fail(text("expected an input with channels, got ", output.text()));
  if (end == 0) end = output.channels();
  if (begin >= end || end > output.channels())
    fail(text("channels ", begin, " to ", end, " are not a range of the input's ",
              output.channels(), " channels (", output.text(), ")"));
  output[1] = end - begin;
  return output;
}

}  // namespace poseidon::layers
