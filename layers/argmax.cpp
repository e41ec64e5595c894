#include "layers/argmax.h"

#include "core/error.h"

namespace poseidon::layers {

void Argmax::describe(Fields& fields) {
  fields.integer("top_k", top_k, at_least(1), "number of elements");
  fields.boolean("values", values, "append the elements to their indices");
}

Shape Argmax::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  constexpr int64_t kMax = 1 << 24;  // fp32 represents all integers up to 2^24
  if (input.sample_count() > kMax)
    fail(text("a sample has ", input.sample_count(), " elements; expected at most ", kMax,
              ", because indices are fp32"));
  if (top_k > input.sample_count())
    fail(text("\"top_k\": ", top_k, ", but a sample has only ", input.sample_count(), " elements (",
              input.text(), ")"));
  return {input.samples(), values ? 2 * top_k : top_k};
}

}  // namespace poseidon::layers
