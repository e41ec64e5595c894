#include "layers/convolution.h"

#include "core/error.h"

namespace poseidon::layers {

void ConvolutionKeys::describe_keys(Fields& fields, std::string_view stride_doc,
                                    std::string_view padding_doc) {
  fields.integer("outputs", outputs, between(1, 1 << 20), "number of output channels",
                 Presence::kRequired);
  fields.pair("kernel", kernel, at_least(1), "kernel height and width", Presence::kRequired);
  fields.pair("stride", stride, at_least(1), stride_doc);
  fields.sides("padding", padding, at_least(0), padding_doc);
  fields.pair("dilation", dilation, at_least(1), "distance between kernel elements");
  fields.integer("groups", groups, at_least(1), "channel groups, convolved separately");
  fields.boolean("bias", bias, "add a bias");
  fields.object(
      "weight_filler", [this](Fields& f) { weight_filler.describe(f); }, "initial weight");
  fields.object(
      "bias_filler", [this](Fields& f) { bias_filler.describe(f); }, "initial bias");
  multipliers.describe(fields);
}

std::string ConvolutionKeys::fault(const Shape& input) const {
  if (input.rank() != 4) return text("expected an input with height and width, got ", input.text());
  if (input.channels() % groups != 0)
    return text("input has ", input.channels(),
                " channels, not a multiple of \"groups\": ", groups);
  if (outputs % groups != 0)
    return text("\"outputs\": ", outputs, " is not a multiple of \"groups\": ", groups);
  constexpr int64_t kMax = 1 << 20;  // prevents overflow
  for (const auto& pair : {kernel, stride, padding.before, padding.after, dilation})
    if (pair[0] > kMax || pair[1] > kMax)
      return text("expected kernel, stride, padding and dilation of at most ", kMax);
  return "";
}

std::vector<ParameterSpec> ConvolutionKeys::parameters_of(const Shape& weight) const {
  const int64_t fan_in = weight.sample_count();
  std::vector<ParameterSpec> specs;
  specs.push_back({.name = "weight", .shape = weight, .filler = weight_filler, .fan_in = fan_in});
  if (bias)
    specs.push_back({.name = "bias", .shape = {outputs}, .filler = bias_filler, .fan_in = fan_in});
  multipliers.apply(specs);
  return specs;
}

void Convolution::describe(Fields& fields) {
  describe_keys(fields, "distance between windows",
                "zeros added: one number, [height, width] or [top, bottom, left, right]");
}

Shape Convolution::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (const std::string wrong = fault(input); !wrong.empty()) fail(wrong);
  std::array<int64_t, 2> extent{};
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t padded = input[2 + axis] + padding.sum(i);
    if (window(i) > padded)
      fail(text("kernel spans ", window(i), " but the padded input has only ", padded,
                axis == 0 ? " rows" : " columns"));
    extent[i] = (padded - window(i)) / stride[i] + 1;
  }
  output = Shape{input.samples(), outputs, extent[0], extent[1]};
  return output;
}

std::vector<ParameterSpec> Convolution::parameters() const {
  return parameters_of({outputs, input.channels() / groups, kernel[0], kernel[1]});
}

bool Convolution::reads_single_cells() const {
  return kernel == std::array<int64_t, 2>{1, 1} && padding.sum(0) + padding.sum(1) == 0;
}

Convolution Convolution::of_factors(int64_t samples) const {
  Convolution all = *this;
  if (reads_single_cells()) {
    all.stride = {1, 1};
    all.input = {samples, input.channels(), output.height(), output.width()};
  } else {
    all.input = {samples, input.channels(), input.height(), input.width()};
  }
  all.output = {samples, outputs, output.height(), output.width()};
  return all;
}

/// Before infer(), the sizes are 0.
std::optional<FactorShape> Convolution::factors() const {
  if (output.rank() == 0) return FactorShape{};
  return FactorShape{.deltas = output.sample_count(),
                     .activations = of_factors(1).input.sample_count(),
                     .bias = bias,
                     .multiply_adds = multiply_adds() / output.samples()};
}

int64_t Convolution::multiply_adds() const {
  return output.count() * (input.channels() / groups) * kernel[0] * kernel[1];
}

}  // namespace poseidon::layers
