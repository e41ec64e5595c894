#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// Five channels do not fill a block, so every blocked layout has padding lanes.
const std::vector<Shape> kImages{{2, 5, 3, 4}};

Values values_of(const char* type, const Values& input) {
  LayerRunner runner(
      {.json = {{"type", type}}, .inputs = {{1, static_cast<int64_t>(input.size())}}});
  return runner.forward({.inputs = {input}});
}

}  // namespace

TEST_CASE("relu: gradients with and without a slope") {
  check_gradients_everywhere({.json = {{"type", "relu"}}, .inputs = kImages}, {.kinks = true});
  check_gradients_everywhere({.json = {{"type", "relu"}, {"slope", 0.1}}, .inputs = kImages},
                             {.kinks = true});
  check_gradients_everywhere({.json = {{"type", "relu"}}, .inputs = {{3, 7}}}, {.kinks = true});
}

TEST_CASE("relu: values") {
  LayerRunner leaky({.json = {{"type", "relu"}, {"slope", 0.5}}, .inputs = {{1, 3}}});
  CHECK(leaky.forward({.inputs = {{-2, 0, 3}}}) == Values{-1, 0, 3});
  CHECK(values_of("relu", {-2, 0, 3}) == Values{0, 0, 3});
}

TEST_CASE("sigmoid and tanh: gradients") {
  for (const char* type : {"sigmoid", "tanh"}) {
    check_gradients_everywhere({.json = {{"type", type}}, .inputs = kImages});
    check_gradients_everywhere({.json = {{"type", type}}, .inputs = {{3, 7}}});
  }
}

TEST_CASE("sigmoid and tanh: values are accurate over the whole range") {
  Values input;
  for (float x = 1e-6F; x < 100; x *= 1.13F) {
    input.push_back(x);
    input.push_back(-x);
  }
  const Values sigmoid = values_of("sigmoid", input), tanh = values_of("tanh", input);
  for (size_t i = 0; i < input.size(); ++i) {
    const double x = static_cast<double>(input[i]), exact = 1 / (1 + std::exp(-x));
    CAPTURE(x);
    CHECK(static_cast<double>(sigmoid[i]) == doctest::Approx(exact).epsilon(1e-6));
    CHECK(static_cast<double>(tanh[i]) == doctest::Approx(std::tanh(x)).epsilon(5e-7).scale(0));
  }
}

TEST_CASE("sigmoid and tanh: NaN stays NaN") {
  const float nan = std::nanf("");
  CHECK(std::isnan(values_of("sigmoid", {nan})[0]));
  CHECK(std::isnan(values_of("tanh", {nan})[0]));
  CHECK(std::isnan(values_of("relu", {nan})[0]));
}

TEST_CASE("eltwise: gradients of every operation with two and three inputs") {
  for (const char* operation : {"sum", "product", "maximum"}) {
    CAPTURE(std::string(operation));
    const bool kinks = std::string(operation) == "maximum";
    for (size_t count : {2, 3}) {
      check_gradients_everywhere({.json = {{"type", "eltwise"}, {"operation", operation}},
                                  .inputs = std::vector<Shape>(count, Shape{2, 5, 3, 2})},
                                 {.kinks = kinks});
    }
  }
}

TEST_CASE("eltwise: sum with a fused relu") {
  for (float slope : {0.0F, 0.2F})
    check_gradients_everywhere({.json = {{"type", "eltwise"}},
                                .inputs = {{2, 5, 3, 2}, {2, 5, 3, 2}, {2, 5, 3, 2}},
                                .relu = slope},
                               {.kinks = true});
}

TEST_CASE("eltwise: the first of equal maxima receives the gradient") {
  LayerRunner runner({.json = {{"type", "eltwise"}, {"operation", "maximum"}},
                      .inputs = {{1, 2}, {1, 2}, {1, 2}}});
  const LayerResults results =
      runner.run({.inputs = {{1, 2}, {1, 3}, {0, 3}}, .output_gradients = {{5, 7}}});
  CHECK(results.output == Values{1, 3});
  CHECK(results.input_gradients == std::vector<Values>{{5, 0}, {0, 7}, {0, 0}});
}

TEST_CASE("eltwise: only some inputs need a gradient") {
  for (const char* operation : {"sum", "product", "maximum"}) {
    LayerCase layer{.json = {{"type", "eltwise"}, {"operation", operation}},
                    .inputs = {{2, 3}, {2, 3}},
                    .input_needs_gradient = {false, true}};
    LayerRunner runner(layer);
    check_gradients(layer, random_inputs(runner, layer, 1), {.kinks = true});
  }
}

TEST_CASE("eltwise: invalid inputs are refused") {
  CHECK_THROWS_WITH(define({{"type", "eltwise"}, {"name", "add"}}, {{2, 3}}),
                    "[eltwise 'add'] expected at least 2 inputs, got 1");
  CHECK_THROWS_WITH(define({{"type", "eltwise"}, {"name", "add"}}, {{2, 3}, {2, 4}}),
                    "[eltwise 'add'] inputs must have equal shapes, got 2x3 and 2x4");
}

TEST_CASE("concat: gradients with full and partial channel blocks") {
  check_gradients_everywhere(
      {.json = {{"type", "concat"}}, .inputs = {{2, 16, 2, 3}, {2, 32, 2, 3}, {2, 5, 2, 3}}});
  check_gradients_everywhere(
      {.json = {{"type", "concat"}}, .inputs = {{2, 5, 2, 3}, {2, 3, 2, 3}}});
  check_gradients_everywhere({.json = {{"type", "concat"}}, .inputs = {{2, 5}, {2, 3}}});
  LayerCase one{.json = {{"type", "concat"}},
                .inputs = {{2, 5}, {2, 3}},
                .input_needs_gradient = {true, false}};
  check_gradients(one, random_inputs(LayerRunner(one), one, 2));
}

TEST_CASE("concat: invalid inputs are refused") {
  CHECK_THROWS_WITH(define({{"type", "concat"}, {"name", "join"}}, {}),
                    "[concat 'join'] expected at least 1 input, got 0");
  CHECK_THROWS_WITH(
      define({{"type", "concat"}, {"name", "join"}}, {{2, 3, 4, 4}, {2, 3, 5, 4}}),
      "[concat 'join'] inputs may differ only in their channels, got 2x3x4x4 and 2x3x5x4");
  CHECK_THROWS_WITH(
      define({{"type", "concat"}, {"name", "join"}}, {{2, 3, 4, 4}, {2, 3}}),
      "[concat 'join'] inputs may differ only in their channels, got 2x3x4x4 and 2x3");
}

TEST_CASE("flatten: elements keep their canonical order in every layout") {
  check_gradients_everywhere({.json = {{"type", "flatten"}}, .inputs = kImages});
  LayerCase layer{.json = {{"type", "flatten"}}, .inputs = kImages, .layout = Layout::kBlocked16};
  LayerRunner runner(layer);
  CHECK(runner.output_shape() == Shape{2, 60});
  const LayerInputs values = random_inputs(runner, layer, 1);
  CHECK(runner.forward(values) == values.inputs[0]);
}
