// Factors of convolutions: their order, and the gradients rebuilt from them, bit by bit. Each
// element of a weight's gradient is one chain of fused multiply-adds, on every device.

#include <doctest/doctest.h>

#include <cstring>

#include "layers/convolution.h"
#include "tests/layers/multiply_add.h"
#include "tests/support/factor_runner.h"
#include "tests/support/layer_runner.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json convolution_with(Json fields) {
  fields["type"] = "convolution";
  fields["name"] = "conv";
  return fields;
}

layers::Convolution geometry_of(const FactoredCase& each) {
  return static_cast<const layers::Convolution&>(*define(each.json, {each.input}));
}

/// Channels last, without the cells that a convolution of kernel 1 x 1 skips.
Values in_factor_order(const Values& canonical, const Shape& shape, const Shape& cells,
                       const std::array<int64_t, 2>& step) {
  Values ordered;
  for (int64_t n = 0; n < shape.samples(); ++n)
    for (int64_t y = 0; y < cells.height(); ++y)
      for (int64_t x = 0; x < cells.width(); ++x)
        for (int64_t c = 0; c < shape.channels(); ++c)
          ordered.push_back(canonical[static_cast<size_t>(
              ((n * shape.channels() + c) * shape.height() + y * step[0]) * shape.width() +
              x * step[1])]);
  return ordered;
}

/// The chains of multiply-adds of a stack of factors: the weight, (outputs, inputs / groups,
/// kernel).
struct ExpectedGradients {
  ExpectedGradients(const layers::Convolution& stacked, const FactoredResults& factors)
      : of(stacked),
        results(factors),
        weight(static_cast<size_t>(of.parameters()[0].shape.count())),
        bias(static_cast<size_t>(of.outputs)) {
    std::vector<double> sums(bias.size());
    for (int64_t n = 0; n < of.output.samples(); ++n)
      for (int64_t y = 0; y < of.output.height(); ++y)
        for (int64_t x = 0; x < of.output.width(); ++x)
          for (int64_t output = 0; output < of.outputs; ++output) {
            const float delta = results.deltas[static_cast<size_t>(
                ((n * of.output.height() + y) * of.output.width() + x) * of.outputs + output)];
            add_position(n, y, x, output, delta);
            sums[static_cast<size_t>(output)] += static_cast<double>(delta);
          }
    for (size_t i = 0; i < sums.size(); ++i) bias[i] = static_cast<float>(sums[i]);
  }

  void add_position(int64_t n, int64_t y, int64_t x, int64_t output, float delta) {
    const int64_t inputs = of.input.channels() / of.groups;
    const int64_t first = output / (of.outputs / of.groups) * inputs;
    for (int64_t ky = 0; ky < of.kernel[0]; ++ky)
      for (int64_t kx = 0; kx < of.kernel[1]; ++kx) {
        const int64_t row = y * of.stride[0] + ky * of.dilation[0] - of.padding.before[0];
        const int64_t column = x * of.stride[1] + kx * of.dilation[1] - of.padding.before[1];
        const bool inside =
            row >= 0 && row < of.input.height() && column >= 0 && column < of.input.width();
        for (int64_t c = 0; c < inputs; ++c) {
          const float activation =
              inside ? results.activations[static_cast<size_t>(
                           ((n * of.input.height() + row) * of.input.width() + column) *
                               of.input.channels() +
                           first + c)]
                     : 0;
          float& sum = weight[static_cast<size_t>(
              ((output * inputs + c) * of.kernel[0] + ky) * of.kernel[1] + kx)];
          sum = multiply_add(delta, activation, sum);
        }
      }
  }

  const layers::Convolution& of;
  const FactoredResults& results;
  Values weight, bias;
};

bool same_bits(const Values& a, const Values& b) {
  // Adding 0 makes -0 equal to 0: a chain begins with 0.
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_case(const FactoredCase& each) {
  CAPTURE(each.json.dump());
  CAPTURE(each.input.text());
  CAPTURE(each.threads);
  const layers::Convolution geometry = geometry_of(each);
  const FactoredResults results = run_with_factors(each, make_layer_backend);
  const layers::Convolution stacked = geometry.of_factors(each.batches * each.input.samples());
  Values activations, deltas;
  for (size_t batch = 0; batch < results.inputs.size(); ++batch) {
    const Values inputs = in_factor_order(
        results.inputs[batch], each.input, stacked.input,
        geometry.reads_single_cells() ? geometry.stride : std::array<int64_t, 2>{1, 1});
    activations.insert(activations.end(), inputs.begin(), inputs.end());
    const Values gradients =
        in_factor_order(results.output_gradients[batch], geometry.output, geometry.output, {1, 1});
    deltas.insert(deltas.end(), gradients.begin(), gradients.end());
  }
  if (each.type == DataType::kBf16)
    for (Values* values : {&activations, &deltas})
      for (float& value : *values) value = Bf16(value);
  CHECK(same_bits(results.activations, activations));
  if (!each.relu && each.contributions == 1) CHECK(same_bits(results.deltas, deltas));
  const ExpectedGradients expected(stacked, results);
  CHECK(same_bits(results.parameter_gradients[0], expected.weight));
  if (geometry.bias) CHECK(same_bits(results.parameter_gradients[1], expected.bias));
}

/// Strides, padding that differs by side, dilation, groups, numbers of channels below and above a
/// block, and kernels that read single cells. One case has more positions than a panel.
const std::vector<FactoredCase> kConvolutions{
    {.json = convolution_with({{"outputs", 16}, {"kernel", 3}, {"padding", 1}}),
     .input = {2, 16, 6, 5}},
    {.json = convolution_with({{"outputs", 40}, {"kernel", {3, 2}}, {"padding", {1, 0, 2, 1}}}),
     .input = {3, 3, 7, 8}},
    {.json = convolution_with({{"outputs", 20}, {"kernel", 5}, {"stride", 2}, {"dilation", 2}}),
     .input = {2, 33, 15, 13}},
    {.json = convolution_with({{"outputs", 12}, {"kernel", 3}, {"groups", 4}, {"padding", 1}}),
     .input = {2, 8, 5, 5}},
    {.json = convolution_with({{"outputs", 70}, {"kernel", 1}, {"bias", false}}),
     .input = {2, 130, 7, 7}},
    {.json = convolution_with({{"outputs", 48}, {"kernel", 1}, {"stride", {2, 3}}}),
     .input = {2, 24, 7, 8}},
    {.json = convolution_with({{"outputs", 5}, {"kernel", 1}, {"stride", 2}, {"padding", 1}}),
     .input = {1, 4, 5, 5}},
    {.json = convolution_with({{"outputs", 17}, {"kernel", 3}, {"padding", 1}}),
     .input = {4, 5, 20, 20}}};

}  // namespace

TEST_CASE("factors of convolutions are channels last, and gradients are chains of multiply-adds") {
  for (FactoredCase each : kConvolutions)
    for (const int threads : {1, 3}) {
      each.threads = threads;
      each.with_sink = threads == 3;
      check_case(each);
      each.layout = Layout::kChannelsLast;
      check_case(each);
    }
}

TEST_CASE("factors of convolutions with a fused relu and several contributions") {
  for (FactoredCase each : kConvolutions) {
    each.relu = 0.1F;
    each.contributions = 3;
    check_case(each);
  }
}

TEST_CASE("factors of convolutions in bf16 are the values of the activations") {
  for (FactoredCase each : kConvolutions) {
    each.type = DataType::kBf16;
    check_case(each);
    each.relu = 0.0F;
    check_case(each);
  }
}

TEST_CASE("a convolution that writes factors computes the input gradients of one that does not") {
  for (FactoredCase each : kConvolutions) {
    CAPTURE(each.json.dump());
    for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
      each.type = type;
      each.relu = 0.0F;
      each.batches = 1;
      const FactoredResults with = run_with_factors(each, make_layer_backend);
      LayerCase plain{.json = each.json, .inputs = {each.input}, .type = type, .relu = each.relu};
      LayerRunner runner(plain);
      LayerInputs values{.inputs = with.inputs, .output_gradients = with.output_gradients};
      for (const Shape& shape : runner.parameter_shapes())
        values.parameters.push_back(random_values(shape.count(), 50 + values.parameters.size()));
      const LayerResults without = runner.run(values);
      CHECK(with.input_gradients[0] == without.input_gradients[0]);
      double worst = 0, largest = 0;
      for (size_t i = 0; i < without.parameter_gradients[0].size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(with.parameter_gradients[0][i]) -
                                         static_cast<double>(without.parameter_gradients[0][i])));
      for (const float gradient : without.parameter_gradients[0])
        largest = std::max(largest, std::abs(static_cast<double>(gradient)));
      // With bf16, a GPU's library rounds the gradient of the weight to bf16.
      CHECK(worst < 2e-4 + (type == DataType::kBf16 ? largest / 256 : 0));
    }
  }
}
