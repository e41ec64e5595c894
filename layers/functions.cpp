#include "layers/functions.h"

#include "core/error.h"

namespace poseidon::layers {

Shape Function::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  return inputs[0];
}

void Clip::describe(Fields& fields) {
  fields.number("minimum", minimum, {}, "lower bound", Presence::kRequired);
  fields.number("maximum", maximum, {}, "upper bound", Presence::kRequired);
}

Shape Clip::infer(std::span<const Shape> inputs) {
  if (minimum > maximum)
    fail(text("expected \"minimum\" <= \"maximum\", got ", minimum, " and ", maximum));
  return Function::infer(inputs);
}

void Elu::describe(Fields& fields) {
  fields.number("alpha", alpha, at_least(0), "factor of e^x - 1 for x < 0");
}

void Exp::describe(Fields& fields) {
  fields.number("base", base, kPositive, "base");
  fields.number("scale", scale, {}, "factor on the input");
  fields.number("shift", shift, {}, "added to the scaled input");
}

void Log::describe(Fields& fields) {
  fields.number("base", base, kPositive, "base of the logarithm; not 1");
  fields.number("scale", scale, {}, "factor on the input");
  fields.number("shift", shift, {}, "added to the scaled input");
}

Shape Log::infer(std::span<const Shape> inputs) {
  if (base == 1) fail("\"base\": expected a number other than 1, got 1");
  return Function::infer(inputs);
}

void Power::describe(Fields& fields) {
  fields.number("power", power, {}, "exponent");
  fields.number("scale", scale, {}, "factor on the input");
  fields.number("shift", shift, {}, "added to the scaled input");
}

void Relu::describe(Fields& fields) {
  fields.number("slope", slope, at_least(0), "factor on negative values");
}

void Swish::describe(Fields& fields) {
  fields.number("beta", beta, {}, "factor on the sigmoid's input");
}

void Threshold::describe(Fields& fields) {
  fields.number("threshold", threshold, {}, "values above it become 1, others 0");
}

}  // namespace poseidon::layers
