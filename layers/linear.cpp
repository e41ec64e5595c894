#include "layers/linear.h"

#include "core/error.h"

namespace poseidon::layers {

void Linear::describe(Fields& fields) {
  fields.integer("outputs", outputs, between(1, 1 << 24), "number of outputs", Presence::kRequired);
  fields.boolean("bias", bias, "add a bias");
  fields.object(
      "weight_filler", [this](Fields& f) { weight_filler.describe(f); }, "initial weight");
  fields.object(
      "bias_filler", [this](Fields& f) { bias_filler.describe(f); }, "initial bias");
  multipliers.describe(fields);
}

Shape Linear::infer(std::span<const Shape> input_shapes) {
  expect_inputs(input_shapes, 1);
  samples = input_shapes[0].samples();
  inputs = input_shapes[0].sample_count();
  constexpr int64_t kMaxWeights = (int64_t{1} << 31) - 1;
  if (inputs > kMaxWeights / outputs)
    fail(text("a weight of ", outputs, " x ", inputs, " has 2^31 elements or more"));
  return {samples, outputs};
}

std::vector<ParameterSpec> Linear::parameters() const {
  std::vector<ParameterSpec> specs;
  specs.push_back(
      {.name = "weight", .shape = {outputs, inputs}, .filler = weight_filler, .fan_in = inputs});
  if (bias)
    specs.push_back({.name = "bias", .shape = {outputs}, .filler = bias_filler, .fan_in = inputs});
  multipliers.apply(specs);
  return specs;
}

}  // namespace poseidon::layers
