#include "layers/reshape.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::layers {

void Reshape::describe(Fields& fields) {
  fields.integers(
      "shape", shape, between(-1, 1 << 30),
      "[features] or [channels, height, width] of a sample; 0: as the input; -1 (once): the rest",
      Presence::kRequired);
}

Shape Reshape::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  const Shape& input = inputs[0];
  if (shape.size() != 1 && shape.size() != 3)
    fail(text("\"shape\": expected [features] or [channels, height, width], got ", shape.size(),
              " numbers"));
  if (std::ranges::count(shape, -1) > 1) fail("\"shape\": expected -1 at most once");
  std::vector<int64_t> extents{input.samples()};
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = static_cast<int>(i) + 1;
    if (shape[i] == 0 && axis >= input.rank())
      fail(text("\"shape\": number ", axis,
                " is 0 (copies the input's extent), but the input has shape ", input.text()));
    extents.push_back(shape[i] == 0 ? input[axis] : shape[i]);
    if (shape[i] >= 0 && __builtin_mul_overflow(known, extents.back(), &known))
      fail("\"shape\": the product of the numbers exceeds 2^63");
  }
  for (int64_t& extent : extents)
    if (extent == -1) {
      if (input.sample_count() % known != 0)
        fail(text("\"shape\": the product of the other numbers, ", known, ", does not divide the ",
                  input.sample_count(), " elements of a sample (input ", input.text(), ")"));
      extent = input.sample_count() / known;
    }
  const Shape output{std::span<const int64_t>(extents)};
  if (output.sample_count() != input.sample_count())
    fail(text("\"shape\": an output of shape ", output.text(), " has ", output.sample_count(),
              " elements per sample, but the input has ", input.sample_count(), " (", input.text(),
              ")"));
  return output;
}

}  // namespace poseidon::layers
