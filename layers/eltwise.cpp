#include "layers/eltwise.h"

#include "core/error.h"

namespace poseidon::layers {

void Eltwise::describe(Fields& fields) {
  fields.option("operation", operation, {"sum", "product", "maximum"}, "elementwise operation");
}

Shape Eltwise::infer(std::span<const Shape> inputs) {
  if (inputs.size() < 2) fail(text("expected at least 2 inputs, got ", inputs.size()));
  for (size_t i = 1; i < inputs.size(); ++i)
    if (!(inputs[i] == inputs[0]))
      fail(
          text("inputs must have equal shapes, got ", inputs[0].text(), " and ", inputs[i].text()));
  return inputs[0];
}

}  // namespace poseidon::layers
