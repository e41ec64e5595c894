#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gradient_check.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// Shapes with partial and whole channel blocks, several groups of channels, one channel, several
/// tiles of positions, and features without an image.
const std::vector<Shape> kShapes{{2, 5, 3, 4},  {2, 16, 3, 3},  {1, 41, 3, 2},
                                 {3, 1, 4, 5},  {2, 3, 21, 29}, {1, 2, 67, 71},
                                 {2, 20, 1, 1}, {3, 7},         {300, 19}};

const std::vector<Json>& learned() {
  static const std::vector<Json> kAll{{{"type", "prelu"}},
                                      {{"type", "prelu"}, {"shared", true}},
                                      {{"type", "scale"}},
                                      {{"type", "scale"}, {"bias", true}},
                                      {{"type", "bias"}}};
  return kAll;
}

/// Reference: output and gradients by the definition of the layers, in double precision.
struct ByDefinition {
  std::vector<double> output, of_input, of_factor, of_summand;

  /// `factor_at`: index of an element's factor, or -1.
  template <class Index>
  ByDefinition(const Json& json, const Shape& shape, const LayerInputs& values,
               const Values& factors, const Values& summands, const Index& factor_at)
      : of_factor(factors.size()), of_summand(summands.size()) {
    const bool rectifies = json.at("type") == "prelu";
    for (size_t i = 0; i < values.inputs[0].size(); ++i) {
      const auto channel =
          i / static_cast<size_t>(shape.area()) % static_cast<size_t>(shape.channels());
      const double x = static_cast<double>(values.inputs[0][i]);
      double g = 0;
      for (const Values& gradient : values.output_gradients) g += static_cast<double>(gradient[i]);
      const bool multiplied = !factors.empty() && !(rectifies && x > 0);
      const size_t at = factor_at(i);
      const double factor = multiplied ? static_cast<double>(factors[at]) : 1;
      output.push_back(x * factor +
                       (summands.empty() ? 0 : static_cast<double>(summands[channel])));
      of_input.push_back(g * factor);
      if (multiplied) of_factor[at] += g * x;
      if (!summands.empty()) of_summand[channel] += g;
    }
  }
};

void check_near(const Values& got, const std::vector<double>& expected, const char* what) {
  check_close(got, Values(expected.begin(), expected.end()), 2e-6, what);
}

void check_learned(LayerCase layer) {
  LayerRunner runner(layer);
  const LayerInputs values = random_inputs(runner, layer, 2);
  const bool has_factor = layer.json.at("type") != "bias";
  const Values factors = has_factor ? values.parameters[0] : Values{};
  const Values summands = layer.json.at("type") == "bias" ? values.parameters[0]
                          : values.parameters.size() == 2 ? values.parameters[1]
                                                          : Values{};
  const Shape& shape = layer.inputs[0];
  const ByDefinition expected(layer.json, shape, values, factors, summands, [&](size_t i) {
    return factors.size() == 1
               ? 0
               : i / static_cast<size_t>(shape.area()) % static_cast<size_t>(shape.channels());
  });
  const LayerResults got = runner.run(values);
  check_near(got.output, expected.output, "output");
  check_near(got.input_gradients[0], expected.of_input, "input gradient");
  if (has_factor) check_near(got.parameter_gradients[0], expected.of_factor, "factor");
  if (!summands.empty()) check_near(got.parameter_gradients.back(), expected.of_summand, "summand");
}

/// The shapes that an input with factors per sample may have.
std::vector<Shape> factor_shapes(const Shape& shape) {
  if (shape.rank() == 2) return {{shape[0], shape[1]}, {shape[0], 1}};
  return {{shape[0], shape[1], 1, 1}, {shape[0], 1, 1, 1}, {shape[0], shape[1]}};
}

}  // namespace

TEST_CASE("prelu, scale and bias: gradients in every layout") {
  for (const Json& json : learned())
    for (const Shape& shape : kShapes) {
      if (shape.count() > 2000) continue;  // compared with the definition below
      CAPTURE(json.dump());
      CAPTURE(shape.text());
      check_gradients_everywhere({.json = json, .inputs = {shape}},
                                 {.most_elements = 12, .kinks = json.at("type") == "prelu"});
    }
}

TEST_CASE("prelu, scale and bias: results match the definition in double precision") {
  for (const Json& json : learned())
    for (const Shape& shape : kShapes)
      for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked16}) {
        if (kIsSanitized && shape.count() > 2000 && layout != Layout::kPlain) continue;
        CAPTURE(json.dump());
        CAPTURE(shape.text());
        check_learned({.json = json, .inputs = {shape}, .layout = layout});
      }
}

TEST_CASE("scale by a second input: gradients in every layout") {
  for (const bool bias : {false, true})
    for (const Shape& shape : kShapes)
      for (const Shape& factor : factor_shapes(shape)) {
        if (shape.count() > 2000) continue;  // compared with the definition below
        CAPTURE(shape.text());
        CAPTURE(factor.text());
        check_gradients_everywhere(
            {.json = {{"type", "scale"}, {"bias", bias}}, .inputs = {shape, factor}},
            {.most_elements = 12});
      }
}

TEST_CASE("scale by a second input: results match the definition in double precision") {
  for (const Shape& shape : kShapes)
    for (const Shape& factor : factor_shapes(shape))
      for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8}) {
        CAPTURE(shape.text());
        CAPTURE(factor.text());
        LayerCase layer{.json = {{"type", "scale"}}, .inputs = {shape, factor}, .layout = layout};
        LayerRunner runner(layer);
        const LayerInputs values = random_inputs(runner, layer, 2);
        const auto each = static_cast<size_t>(shape.count() / factor.count());
        const ByDefinition expected(layer.json, shape, values, values.inputs[1], {},
                                    [&](size_t i) { return i / each; });
        const LayerResults got = runner.run(values);
        check_near(got.output, expected.output, "output");
        check_near(got.input_gradients[0], expected.of_input, "input gradient");
        check_near(got.input_gradients[1], expected.of_factor, "gradient of the factor");
      }
}

TEST_CASE("scale by a second input: only one of the inputs needs a gradient") {
  for (const bool first : {false, true}) {
    LayerCase layer{.json = {{"type", "scale"}},
                    .inputs = {{2, 5, 3, 4}, {2, 5, 1, 1}},
                    .layout = Layout::kBlocked8,
                    .input_needs_gradient = {first, !first}};
    check_gradients(layer, random_inputs(LayerRunner(layer), layer, 2));
  }
}

TEST_CASE("prelu: the gradient at zero is the slope") {
  LayerRunner runner({.json = {{"type", "prelu"}}, .inputs = {{1, 4}}});
  const LayerResults results = runner.run({.inputs = {{0, -0.0F, -2, 3}},
                                           .parameters = {{0.5F, 0.5F, 0.5F, 0.5F}},
                                           .output_gradients = {{1, 1, 1, 1}}});
  CHECK(results.output == Values{0, 0, -1, 3});
  CHECK(results.input_gradients[0] == Values{0.5F, 0.5F, 0.5F, 1});
  CHECK(results.parameter_gradients[0] == Values{0, 0, -2, 0});
}

TEST_CASE("prelu, scale and bias: in-place test output equals training output") {
  for (const Json& json : learned()) {
    CAPTURE(json.dump());
    LayerCase layer{.json = json, .inputs = {{2, 5, 3, 4}}, .layout = Layout::kBlocked8};
    LayerRunner training(layer);
    const LayerInputs values = random_inputs(training, layer, 0);
    const Values expected = training.forward(values);
    layer.training = false;
    layer.in_place = true;
    layer.step.phase = layers::Phase::kTest;
    CHECK(LayerRunner(layer).forward(values) == expected);
  }
}

TEST_CASE("prelu, scale and bias: parameter gradients have equal bits for any thread count") {
  for (const Json& json : learned())
    for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked16}) {
      LayerCase layer{.json = json, .inputs = {{3, 37, 30, 31}}, .layout = layout};
      const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      const auto expected = LayerRunner(layer).run(values).parameter_gradients;
      layer.threads = 3;
      CHECK(LayerRunner(layer).run(values).parameter_gradients == expected);
    }
}

TEST_CASE("prelu, scale and bias: invalid inputs are refused") {
  CHECK_THROWS_WITH(define({{"type", "bias"}, {"name", "b"}}, {{2, 3}, {2, 3}}),
                    "[bias 'b'] expected 1 input, got 2");
  CHECK_THROWS_WITH(define({{"type", "prelu"}, {"name", "p"}}, {{2}}),
                    "[prelu 'p'] expected an input with channels, got 2");
  CHECK_THROWS_WITH(define({{"type", "scale"}, {"name", "s"}}, {{2, 3}, {2, 3}, {2, 3}}),
                    "[scale 's'] expected 1 or 2 inputs (the second is the factor), got 3");
  CHECK_THROWS_WITH(define({{"type", "scale"}, {"name", "s"}}, {{2, 3, 4, 4}, {2, 3, 4, 1}}),
                    "[scale 's'] expected a factor per sample and channel (2x3x1x1) or per "
                    "sample (2x1x1x1), got 2x3x4x1");
}
