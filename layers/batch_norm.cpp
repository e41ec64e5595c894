#include "layers/batch_norm.h"

#include "core/error.h"

namespace poseidon::layers {

void BatchNorm::describe(Fields& fields) {
  fields.number("epsilon", epsilon, kPositive, "added to the variance");
  fields.number("momentum", momentum, between(0, 1),
                "weight of the current batch in the running statistics");
  fields.object(
      "scale_filler", [this](Fields& f) { scale_filler.describe(f); }, "initial scale");
  fields.object(
      "shift_filler", [this](Fields& f) { shift_filler.describe(f); }, "initial shift");
  multipliers.describe(fields);
}

Shape BatchNorm::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (input.rank() < 2) fail(text("expected an input with channels, got ", input.text()));
  return input;
}

std::vector<ParameterSpec> BatchNorm::parameters() const {
  const Shape channels{input.channels()};
  std::vector<ParameterSpec> specs;
  specs.push_back({.name = "scale", .shape = channels, .filler = scale_filler});
  specs.push_back({.name = "shift", .shape = channels, .filler = shift_filler});
  multipliers.apply(specs);
  return specs;
}

std::vector<StatisticSpec> BatchNorm::statistics() const {
  const Shape channels{input.channels()};
  return {{.name = "running_mean", .shape = channels, .initial = 0, .momentum = momentum},
          {.name = "running_var", .shape = channels, .initial = 1, .momentum = momentum}};
}

}  // namespace poseidon::layers
