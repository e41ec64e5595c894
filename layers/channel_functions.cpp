#include "layers/channel_functions.h"

#include "core/error.h"

namespace poseidon::layers {

Shape ChannelFunction::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (input.rank() < 2) fail(text("expected an input with channels, got ", input.text()));
  return input;
}

void Prelu::describe(Fields& fields) {
  fields.boolean("shared", shared, "one slope for all channels");
  fields.object(
      "slope_filler", [this](Fields& f) { slope_filler.describe(f); }, "initial slopes");
  multipliers.describe(fields);
}

std::vector<ParameterSpec> Prelu::parameters() const {
  std::vector<ParameterSpec> specs{of_channels("slope", slope_filler)};
  if (shared) specs[0].shape = {1};
  multipliers.apply(specs);
  return specs;
}

ChannelOperand Prelu::factor() const {
  return {.source = ChannelOperand::Source::kParameter, .channels = shared ? 1 : input.channels()};
}

void Scale::describe(Fields& fields) {
  fields.boolean("bias", bias, "add a learned bias");
  fields.object(
      "scale_filler", [this](Fields& f) { scale_filler.describe(f); }, "initial factors");
  fields.object(
      "bias_filler", [this](Fields& f) { bias_filler.describe(f); }, "initial bias");
  multipliers.describe(fields);
}

Shape Scale::infer(std::span<const Shape> inputs) {
  if (inputs.empty() || inputs.size() > 2)
    fail(text("expected 1 or 2 inputs (the second is the factor), got ", inputs.size()));
  ChannelFunction::infer(inputs.first(1));
  given_channels = 0;
  if (inputs.size() == 1) return input;
  const Shape& factor = inputs[1];
  const bool fits = factor.samples() == input.samples() && factor.area() == 1 &&
                    (factor.channels() == input.channels() || factor.channels() == 1);
  if (!fits)
    fail(text("expected a factor per sample and channel (", input.samples(), "x", input.channels(),
              "x1x1) or per sample (", input.samples(), "x1x1x1), got ", factor.text()));
  given_channels = factor.channels();
  return input;
}

std::vector<ParameterSpec> Scale::parameters() const {
  std::vector<ParameterSpec> specs;
  if (given_channels == 0) specs.push_back(of_channels("scale", scale_filler));
  if (bias) specs.push_back(of_channels("bias", bias_filler));
  multipliers.apply(specs);
  return specs;
}

ChannelOperand Scale::factor() const {
  if (given_channels > 0)
    return {.source = ChannelOperand::Source::kInput, .index = 1, .channels = given_channels};
  return {.source = ChannelOperand::Source::kParameter, .channels = input.channels()};
}

ChannelOperand Scale::summand() const {
  if (!bias) return {};
  return {.source = ChannelOperand::Source::kParameter,
          .index = given_channels > 0 ? 0 : 1,
          .channels = input.channels()};
}

void Bias::describe(Fields& fields) {
  fields.object(
      "filler", [this](Fields& f) { filler.describe(f); }, "initial bias");
  multipliers.describe(fields);
}

std::vector<ParameterSpec> Bias::parameters() const {
  std::vector<ParameterSpec> specs{of_channels("bias", filler)};
  multipliers.apply(specs);
  return specs;
}

ChannelOperand Bias::summand() const {
  return {.source = ChannelOperand::Source::kParameter, .channels = input.channels()};
}

}  // namespace poseidon::layers
