#include "layers/pooling.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::layers {

void Pooling::describe(Fields& fields) {
  fields.option("method", method, {"max", "average", "stochastic"},
                "stochastic: in training a random value, with probability proportional to the "
                "value (>= 0); in tests the weighted mean");
  fields.pair("kernel", kernel, at_least(0), "window height and width; not with \"global\"");
  fields.pair("stride", stride, at_least(1), "distance between windows");
  fields.sides("padding", padding, at_least(0),
               "cells added: one number, [height, width] or [top, bottom, left, right]");
  fields.option("rounding", rounding, {"ceil", "floor"}, "rounding of the number of windows");
  fields.boolean("global", global, "one window over the whole input");
  fields.pair("windows", windows, at_least(0),
              "adaptive average pooling: windows per axis, which may overlap by a cell; excludes "
              "\"kernel\", \"stride\", \"padding\" and \"global\"; 0: off");
}

Shape Pooling::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (input.rank() != 4) fail(text("expected an input with height and width, got ", input.text()));
  if (windows[0] != 0 || windows[1] != 0) return infer_even();
  if (global) {
    if (kernel[0] != 0 || padding != Sides{})
      fail("\"global\" pools the whole input: remove \"kernel\" and \"padding\"");
    kernel = {input.height(), input.width()};
    stride = {1, 1};
  }
  output = {input.samples(), input.channels(), 0, 0};
  constexpr int64_t kMax = 1 << 20;  // prevents overflow below
  for (const auto& pair : {kernel, stride, padding.before, padding.after})
    if (pair[0] > kMax || pair[1] > kMax)
      fail(text("expected kernel, stride and padding of at most ", kMax));
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (kernel[i] == 0) fail("expected \"kernel\" of at least 1, \"global\": true, or \"windows\"");
    const int64_t most = std::max(padding.before[i], padding.after[i]);
    if (most >= kernel[i])
      fail(text("\"padding\" must be smaller than the kernel, got ", most, " with kernel ",
                kernel[i]));
    const int64_t room = input[2 + axis] + padding.sum(i) - kernel[i];
    if (room < 0)
      fail(text("kernel spans ", kernel[i], " but the padded input has only ", room + kernel[i],
                axis == 0 ? " rows" : " columns"));
    const int64_t round_up = rounding == PoolingRounding::kCeil ? stride[i] - 1 : 0;
    output[2 + axis] = (room + round_up) / stride[i] + 1;
    if ((output[2 + axis] - 1) * stride[i] >= input[2 + axis] + padding.before[i])
      --output[2 + axis];
  }
  return output;
}

Shape Pooling::infer_even() {
  using Pair = std::array<int64_t, 2>;
  if (global || kernel != Pair{0, 0} || stride != Pair{1, 1} || padding != Sides{})
    fail(
        "\"windows\" covers the whole input: remove \"kernel\", \"stride\", \"padding\" and "
        "\"global\"");
  if (method != PoolingMethod::kAverage) fail("\"windows\" requires \"method\": \"average\"");
  output = {input.samples(), input.channels(), windows[0], windows[1]};
  constexpr int64_t kMax = int64_t{1} << 31;  // limits windows * cells, which GPU code computes
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t cells = input[2 + axis], most = std::min(cells, kMax / cells);
    if (output[2 + axis] < 1 || output[2 + axis] > most)
      fail(text("expected 1 to ", most, " \"windows\" over the ", axis == 0 ? "rows" : "columns",
                " of the input, got ", output[2 + axis]));
  }
  return output;
}

int64_t Pooling::overhang(int axis) const {
  const auto i = static_cast<size_t>(axis);
  const int64_t end = (output[2 + axis] - 1) * stride[i] - padding.before[i] + kernel[i];
  return std::max<int64_t>(0, end - input[2 + axis]);
}

}  // namespace poseidon::layers
