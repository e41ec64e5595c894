#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const Json kJson{{"type", "batch_norm"}, {"name", "bn"}};

void check(std::vector<Shape> inputs, std::optional<float> relu, bool residual) {
  check_gradients_everywhere(
      {.json = kJson, .inputs = std::move(inputs), .relu = relu, .residual = residual},
      {.step = 5e-3F, .relative = 4e-3, .most_elements = 16, .kinks = relu.has_value()});
}

}  // namespace

TEST_CASE("batch_norm: gradients") {
  check({{4, 5, 3, 2}}, std::nullopt, false);
  check({{3, 37, 2, 2}}, std::nullopt, false);
  check({{6, 7}}, std::nullopt, false);
}

TEST_CASE("batch_norm: gradients with a fused relu") {
  check({{4, 5, 3, 2}}, 0.0F, false);
  check({{3, 16, 3, 2}}, 0.1F, false);
}

TEST_CASE("batch_norm: gradients with a residual, with and without relu") {
  check({{4, 5, 3, 2}, {4, 5, 3, 2}}, std::nullopt, true);
  check({{3, 32, 3, 2}, {3, 32, 3, 2}}, 0.0F, true);
}

TEST_CASE("batch_norm: normalizes by the batch and reports mean and unbiased variance") {
  LayerCase layer{.json = kJson, .inputs = {{2, 1, 1, 2}}};
  LayerRunner runner(layer);
  const LayerResults results = runner.run({.inputs = {{1, 2, 3, 6}},
                                           .parameters = {{2}, {10}},
                                           .statistics = {{0}, {1}},
                                           .output_gradients = {{0, 0, 0, 0}}});
  const float deviation = std::sqrt(3.5F + 1e-5F);
  check_close(results.output, {10 - 4 / deviation, 10 - 2 / deviation, 10, 10 + 6 / deviation},
              1e-6, "output");
  check_close(results.statistics[0], {3}, 1e-6, "mean");
  check_close(results.statistics[1], {14.0F / 3}, 1e-6, "variance");
}

TEST_CASE("batch_norm: uses the running statistics in testing") {
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked16}) {
    LayerCase layer{.json = kJson, .inputs = {{1, 2, 1, 1}}, .layout = layout, .training = false};
    layer.step.phase = layers::Phase::kTest;
    LayerRunner runner(layer);
    const Values got = runner.forward({.inputs = {{3, 3}},
                                       .parameters = {{2, 1}, {10, 0}},
                                       .statistics = {{1, 0}, {4, 9}},
                                       .output_gradients = {}});
    check_close(got, {12, 1}, 1e-5, "output");
  }
}

namespace {

/// Reference: output and input gradient of one channel in double precision, with scale 1 and shift
/// 0.
struct Exact {
  Values output, gradient;

  Exact(const Values& input, const Values& output_gradient) {
    const auto count = static_cast<double>(input.size());
    const auto value = [](float x) { return static_cast<double>(x); };
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (const float x : input) mean += value(x) / count;
    for (const float x : input) variance += (value(x) - mean) * (value(x) - mean) / count;
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    for (size_t i = 0; i < input.size(); ++i) {
      sum += value(output_gradient[i]) / count;
      product += value(output_gradient[i]) * (value(input[i]) - mean) * inverse / count;
    }
    for (size_t i = 0; i < input.size(); ++i) {
      const double normal = (value(input[i]) - mean) * inverse;
      output.push_back(static_cast<float>(normal));
      gradient.push_back(
          static_cast<float>(inverse * (value(output_gradient[i]) - sum - normal * product)));
    }
  }
};

}  // namespace

TEST_CASE("batch_norm: a mean thousands of deviations from zero costs no precision") {
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked16})
    for (const float mean : {0.0F, 100.0F, 2000.0F, -20000.0F}) {
      CAPTURE(mean);
      LayerCase layer{.json = kJson, .inputs = {{5, 1, 23, 17}}, .layout = layout};
      LayerRunner runner(layer);
      LayerInputs values = random_inputs(runner, layer, 1);
      for (float& value : values.inputs[0]) value += mean;
      values.parameters = {{1}, {0}};
      const LayerResults got = runner.run(values);
      const Exact exact(values.inputs[0], values.output_gradients[0]);
      check_close(got.output, exact.output, 2e-6, "output");
      check_close(got.input_gradients[0], exact.gradient, 2e-6, "input gradient");
    }
}

TEST_CASE("batch_norm: a large mean costs no precision") {
  LayerCase layer{.json = kJson, .inputs = {{8, 3, 16, 16}}, .layout = Layout::kBlocked8};
  LayerRunner runner(layer);
  LayerInputs values = random_inputs(runner, layer, 1);
  const LayerResults small = runner.run(values);
  for (float& value : values.inputs[0]) value += 256;
  const LayerResults large = runner.run(values);
  check_close(large.output, small.output, 2e-4, "output");
}
