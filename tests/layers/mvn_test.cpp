#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const std::vector<Shape> kShapes{{2, 5, 3, 4},   {2, 16, 3, 3},  {1, 41, 3, 2},
                                 {2, 3, 21, 29}, {1, 2, 67, 71}, {3, 1, 2, 5}};

std::vector<Json> settings() {
  std::vector<Json> all;
  for (const bool across : {false, true})
    for (const bool variance : {false, true})
      all.push_back({{"type", "mvn"}, {"across_channels", across}, {"variance", variance}});
  all.push_back({{"type", "mvn"}, {"epsilon", 0.5}});
  return all;
}

/// Reference: output and gradient by the definition, in double precision. Each group has `each`
/// consecutive values.
struct Normalized {
  std::vector<double> output, gradient;

  Normalized(const Json& json, const Values& x, const Values& g, size_t each) {
    for (size_t first = 0; first < x.size(); first += each) group(json, x, g, first, each);
  }
  void group(const Json& json, const Values& x, const Values& g, size_t first, size_t each) {
    const double count = static_cast<double>(each);
    double mean = 0, squares = 0, sum = 0, product = 0;
    for (size_t i = first; i < first + each; ++i) mean += static_cast<double>(x[i]) / count;
    for (size_t i = first; i < first + each; ++i) {
      const double distance = static_cast<double>(x[i]) - mean;
      squares += distance * distance;
      sum += static_cast<double>(g[i]);
      product += static_cast<double>(g[i]) * distance;
    }
    const bool variance = json.value("variance", true);
    const double deviation = std::sqrt(squares / count);
    const double divisor = variance ? deviation + json.value("epsilon", 1e-9) : 1;
    for (size_t i = first; i < first + each; ++i) {
      const double distance = static_cast<double>(x[i]) - mean;
      output.push_back(distance / divisor);
      const double through_deviation =
          variance ? distance * product / (count * deviation * divisor * divisor) : 0;
      gradient.push_back((static_cast<double>(g[i]) - sum / count) / divisor - through_deviation);
    }
  }
};

void check_exact(LayerCase layer, float mean, double relative) {
  LayerRunner runner(layer);
  LayerInputs values = random_inputs(runner, layer, 1);
  for (float& value : values.inputs[0]) value += mean;
  const Shape& shape = layer.inputs[0];
  const bool across = layer.json.value("across_channels", false);
  const auto each = static_cast<size_t>(across ? shape.sample_count() : shape.area());
  const Normalized expected(layer.json, values.inputs[0], values.output_gradients[0], each);
  const LayerResults got = runner.run(values);
  check_close(got.output, Values(expected.output.begin(), expected.output.end()), relative,
              "output");
  check_close(got.input_gradients[0], Values(expected.gradient.begin(), expected.gradient.end()),
              relative, "gradient");
}

}  // namespace

TEST_CASE("mvn: gradients in every layout") {
  for (const Json& json : settings())
    for (const Shape& shape : kShapes) {
      if (shape.count() > 2000) continue;  // compared with the definition below
      CAPTURE(json.dump());
      CAPTURE(shape.text());
      check_gradients_everywhere({.json = json, .inputs = {shape}},
                                 {.step = 5e-3F, .relative = 4e-3, .most_elements = 16});
    }
  check_gradients_everywhere(
      {.json = {{"type", "mvn"}, {"across_channels", true}}, .inputs = {{3, 7}}},
      {.step = 5e-3F, .relative = 4e-3});
}

TEST_CASE("mvn: results match the definition in double precision, also far from zero") {
  for (const Json& json : settings())
    for (const Shape& shape : kShapes)
      for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked16}) {
        CAPTURE(json.dump());
        CAPTURE(shape.text());
        const LayerCase layer{.json = json, .inputs = {shape}, .layout = layout};
        check_exact(layer, 0, 4e-6);
        check_exact(layer, 2000, 4e-6);
      }
}

TEST_CASE("mvn: equal values yield 0 and finite gradients") {
  for (const bool across : {false, true})
    for (const Shape& shape : {Shape{2, 5, 9, 9}, Shape{2, 5, 1, 1}}) {
      const LayerCase layer{.json = {{"type", "mvn"}, {"across_channels", across}},
                            .inputs = {shape},
                            .layout = Layout::kBlocked8};
      LayerRunner runner(layer);
      LayerInputs values = random_inputs(runner, layer, 1);
      values.inputs[0].assign(values.inputs[0].size(), 0.1F);
      const LayerResults got = runner.run(values);
      check_close(got.output, Values(got.output.size(), 0), 1e-5, "output");
      for (const float gradient : got.input_gradients[0]) CHECK(std::isfinite(gradient));
    }
}

TEST_CASE("mvn: results have equal bits for any thread count, and in testing") {
  for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked16}) {
    LayerCase layer{.json = {{"type", "mvn"}}, .inputs = {{3, 37, 30, 31}}, .layout = layout};
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    const LayerResults expected = LayerRunner(layer).run(values);
    layer.threads = 3;
    const LayerResults got = LayerRunner(layer).run(values);
    CHECK(got.output == expected.output);
    CHECK(got.input_gradients == expected.input_gradients);
    layer.training = false;
    layer.in_place = true;
    layer.step.phase = layers::Phase::kTest;
    CHECK(LayerRunner(layer).forward(values) == expected.output);
  }
}

TEST_CASE("mvn: invalid inputs are refused") {
  CHECK_THROWS_WITH(define({{"type", "mvn"}, {"name", "m"}}, {{2}}),
                    "[mvn 'm'] expected an input with channels, got 2");
}
