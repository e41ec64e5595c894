#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "layers/functions.h"
#include "layers/registry.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A function of one value, by an independent formula.
struct Known {
  Json json;
  std::function<double(double)> value, derivative;
  double least = -20, most = 20;  ///< range of checked values
  bool kinks = false;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<Known>& known_functions() {
  static const std::vector<Known> kAll{
      {{{"type", "absval"}},
       [](double x) { return std::fabs(x); },
       [](double x) { return x == 0 ? 0 : std::copysign(1, x); },
       -20,
       20,
       true},
      {{{"type", "bnll"}}, [](double x) { return std::log1p(std::exp(x)); }, logistic, -60, 60},
      {{{"type", "clip"}, {"minimum", -0.25}, {"maximum", 0.5}},
       [](double x) { return std::fmin(std::fmax(x, -0.25), 0.5); },
       [](double x) { return x >= -0.25 && x <= 0.5 ? 1 : 0; },
       -20,
       20,
       true},
      {{{"type", "clip"}, {"minimum", 0.25}, {"maximum", 6}},
       [](double x) { return std::fmin(std::fmax(x, 0.25), 6); },
       [](double x) { return x >= 0.25 && x <= 6 ? 1 : 0; },
       -20,
       20,
       true},
      {{{"type", "elu"}},
       [](double x) { return x > 0 ? x : std::expm1(x); },
       [](double x) { return x > 0 ? 1 : std::exp(x); },
       -20,
       20,
       true},
      {{{"type", "elu"}, {"alpha", 0.3}},
       [](double x) { return x > 0 ? x : 0.3 * std::expm1(x); },
       [](double x) { return x > 0 ? 1 : 0.3 * std::exp(x); },
       -20,
       20,
       true},
      {{{"type", "exp"}},
       [](double x) { return std::exp(x); },
       [](double x) { return std::exp(x); }},
      {{{"type", "exp"}, {"base", 2}, {"scale", -0.5}, {"shift", 1.5}},
       [](double x) { return std::exp2(1.5 - 0.5 * x); },
       [](double x) { return -0.5 * std::log(2.0) * std::exp2(1.5 - 0.5 * x); }},
      {{{"type", "log"}, {"shift", 2}},
       [](double x) { return std::log(2 + x); },
       [](double x) { return 1 / (2 + x); },
       -0.5,
       1000},
      {{{"type", "log"}, {"base", 10}, {"scale", -3}, {"shift", 4}},
       [](double x) { return std::log10(4 - 3 * x); },
       [](double x) { return -3 / std::log(10.0) / (4 - 3 * x); },
       -1000,
       0.9},
      {{{"type", "power"}}, [](double x) { return x; }, [](double) { return 1; }},
      {{{"type", "power"}, {"scale", -2}, {"shift", 0.5}},
       [](double x) { return 0.5 - 2 * x; },
       [](double) { return -2; }},
      {{{"type", "power"}, {"power", 2}, {"scale", 3}, {"shift", -0.5}},
       [](double x) { return (3 * x - 0.5) * (3 * x - 0.5); },
       [](double x) { return 6 * (3 * x - 0.5); }},
      {{{"type", "power"}, {"power", 3}},
       [](double x) { return x * x * x; },
       [](double x) { return 3 * x * x; }},
      {{{"type", "power"}, {"power", 0.5}, {"shift", 1.5}},
       [](double x) { return std::sqrt(1.5 + x); },
       [](double x) { return 0.5 / std::sqrt(1.5 + x); },
       -1,
       1e4},
      {{{"type", "power"}, {"power", -2.25}, {"scale", 0.5}, {"shift", 2}},
       [](double x) { return std::pow(2 + 0.5 * x, -2.25); },
       [](double x) { return -2.25 * 0.5 * std::pow(2 + 0.5 * x, -3.25); },
       -2,
       1e4},
      {{{"type", "power"}, {"power", 0}, {"scale", 3}},
       [](double) { return 1; },
       [](double) { return 0; }},
      {{{"type", "power"}, {"power", 3}, {"scale", 0}, {"shift", -2}},
       [](double) { return -8; },
       [](double) { return 0; }},
      {{{"type", "relu"}, {"slope", 0.125}},
       [](double x) { return x > 0 ? x : 0.125 * x; },
       [](double x) { return x > 0 ? 1 : 0.125; },
       -20,
       20,
       true},
      {{{"type", "sigmoid"}}, logistic, [](double x) { return logistic(x) * logistic(-x); }},
      {{{"type", "swish"}},
       [](double x) { return x * logistic(x); },
       [](double x) { return logistic(x) * (1 + x * logistic(-x)); }},
      {{{"type", "swish"}, {"beta", -1.75}},
       [](double x) { return x * logistic(-1.75 * x); },
       [](double x) { return logistic(-1.75 * x) * (1 - 1.75 * x * logistic(1.75 * x)); }},
      {{{"type", "tanh"}},
       [](double x) { return std::tanh(x); },
       [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
      {{{"type", "threshold"}, {"threshold", -0.125}},
       [](double x) { return x > -0.125 ? 1 : 0; },
       [](double) { return 0; },
       -20,
       20,
       true},
  };
  return kAll;
}

/// Values of both signs, dense near zero, limited to [least, most].
Values values_between(double least, double most) {
  Values values;
  for (float x = 1e-6F; x < 1.1e4F; x *= 1.13F)
    for (const float signed_x : {x, -x})
      if (static_cast<double>(signed_x) >= least && static_cast<double>(signed_x) <= most)
        values.push_back(signed_x);
  return values;
}

LayerResults results_of(const Json& json, const Values& input, DataType type = DataType::kFp32) {
  LayerRunner runner(
      {.json = json, .inputs = {{1, static_cast<int64_t>(input.size())}}, .type = type});
  return runner.run({.inputs = {input}, .output_gradients = {Values(input.size(), 1)}});
}

/// Checks for equal bits, including the sign of zero. Any NaN equals any NaN.
void check_exactly(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(got[i]));
      continue;
    }
    CHECK(got[i] == expected[i]);
    CHECK(std::signbit(got[i]) == std::signbit(expected[i]));
  }
}

}  // namespace

TEST_CASE("every function of one value has an independent formula") {
  for (const layers::LayerType& type : layers::layer_types()) {
    if (dynamic_cast<const layers::Function*>(type.make().get()) == nullptr) continue;
    const auto is_known = [&](const Known& known) { return known.json["type"] == type.name; };
    CHECK_MESSAGE(std::ranges::any_of(known_functions(), is_known), type.name);
  }
}

TEST_CASE("functions of one value: gradients in every layout") {
  for (const Known& known : known_functions()) {
    CAPTURE(known.json.dump());
    // Five channels do not fill a block, so every blocked layout has padding lanes.
    for (const Shape& shape : {Shape{2, 5, 3, 4}, Shape{1, 16, 2, 2}, Shape{3, 7}})
      check_gradients_everywhere({.json = known.json, .inputs = {shape}},
                                 {.step = 5e-3F, .kinks = known.kinks});
  }
}

TEST_CASE("functions of one value: values and derivatives match an independent formula") {
  for (const Known& known : known_functions()) {
    CAPTURE(known.json.dump());
    const Values input = values_between(known.least, known.most);
    const LayerResults got = results_of(known.json, input);
    for (size_t i = 0; i < input.size(); ++i) {
      const double x = static_cast<double>(input[i]);
      CAPTURE(x);
      // The tolerance is relative to the argument because exponentials amplify its rounding error.
      // The absolute part is for sums that cancel.
      const double relative = 6e-7 + 1e-7 * std::fmin(std::fabs(x), 60), absolute = 2e-7;
      const double value = known.value(x), derivative = known.derivative(x);
      CHECK(std::fabs(static_cast<double>(got.output[i]) - value) <=
            relative * std::fabs(value) + (known.json.contains("shift") ? absolute : 0));
      CHECK(std::fabs(static_cast<double>(got.input_gradients[0][i]) - derivative) <=
            relative * std::fabs(derivative) + absolute);
    }
  }
}

TEST_CASE("functions of one value: in-place test output equals training output") {
  for (const Known& known : known_functions()) {
    CAPTURE(known.json.dump());
    LayerCase layer{.json = known.json, .inputs = {{2, 5, 3, 4}}, .layout = Layout::kBlocked8};
    LayerRunner training(layer);
    const LayerInputs values = random_inputs(training, layer, 0);
    const Values expected = training.forward(values);
    layer.training = false;
    layer.in_place = true;
    layer.step.phase = layers::Phase::kTest;
    LayerRunner testing(layer);
    CHECK(testing.needs().forward_in_place == 0);
    CHECK(testing.forward(values) == expected);
  }
}

TEST_CASE("functions of one value: results at zeros, bounds, infinities and NaN") {
  const LayerResults absval = results_of({{"type", "absval"}}, {-2, -0.0F, 0, 3, -kInfinity, kNan});
  check_exactly(absval.output, {2, 0, 0, 3, kInfinity, kNan});
  check_exactly(absval.input_gradients[0], {-1, 0, 0, 1, -1, 0});
  const LayerResults clip = results_of({{"type", "clip"}, {"minimum", -1}, {"maximum", 2}},
                                       {-1.5F, -1, -0.0F, 2, 2.5F, -kInfinity, kInfinity, kNan});
  check_exactly(clip.output, {-1, -1, -0.0F, 2, 2, -1, 2, kNan});
  check_exactly(clip.input_gradients[0], {0, 1, 1, 1, 0, 0, 0, 1});
  const LayerResults elu = results_of({{"type", "elu"}, {"alpha", 0.5}}, {0, -200, 7, kNan});
  check_exactly(elu.output, {0, -0.5F, 7, kNan});
  check_exactly(elu.input_gradients[0], {0.5F, 0, 1, kNan});
  const LayerResults threshold =
      results_of({{"type", "threshold"}, {"threshold", 0.5}}, {0.5F, 0.75F, -1, kInfinity, kNan});
  check_exactly(threshold.output, {0, 1, 0, 1, 0});
  check_exactly(threshold.input_gradients[0], Values(5, 0));
  const LayerResults zero = results_of({{"type", "threshold"}}, {0, -0.0F, 1e-30F});
  check_exactly(zero.output, {0, 0, 1});
}

TEST_CASE("functions of one value: exponentials and logarithms at the ends of their range") {
  const Json exp{{"type", "exp"}}, log{{"type", "log"}};
  check_exactly(results_of(exp, {0, 200, -200, kInfinity, -kInfinity, kNan}).output,
                {1, kInfinity, 0, kInfinity, 0, kNan});
  CHECK(results_of(exp, {88.7F}).output[0] == doctest::Approx(3.325e38F).epsilon(1e-3));
  CHECK(results_of(exp, {-100}).output[0] > 0);  // a subnormal number
  const LayerResults of_log = results_of(log, {1, 0, -0.0F, -1, kInfinity, -kInfinity, kNan});
  check_exactly(of_log.output, {0, -kInfinity, -kInfinity, kNan, kInfinity, kNan, kNan});
  check_exactly(of_log.input_gradients[0], {1, kInfinity, kInfinity, -1, 0, -0.0F, kNan});
  CHECK(results_of(log, {1e-40F}).output[0] == doctest::Approx(-92.1034F).epsilon(1e-5));
  check_exactly(results_of({{"type", "bnll"}}, {1000, kNan}).output, {1000, kNan});
  CHECK(results_of({{"type", "bnll"}}, {-1000}).output[0] < 2e-38F);
  check_exactly(results_of({{"type", "swish"}}, {0, -0.0F, 1000, kNan}).output,
                {0, -0.0F, 1000, kNan});
}

TEST_CASE("power: zeros, negative numbers and infinities") {
  const auto power = [](double exponent, const Values& input) {
    return results_of({{"type", "power"}, {"power", exponent}}, input);
  };
  check_exactly(power(3, {-2, 0, 2, kInfinity, kNan}).output, {-8, 0, 8, kInfinity, kNan});
  check_exactly(power(2, {-3, 0}).output, {9, 0});
  check_exactly(power(2, {-3, 0}).input_gradients[0], {-6, 0});
  check_exactly(power(0.5, {-2, 0, 4}).output, {kNan, 0, 2});
  check_exactly(power(0.5, {0, 4}).input_gradients[0], {kInfinity, 0.25F});
  check_exactly(power(1.5, {0}).input_gradients[0], {0});
  check_exactly(power(-1, {0, 2, kInfinity}).output, {kInfinity, 0.5F, 0});
  check_exactly(power(40, {1e3F}).output, {kInfinity});
  check_exactly(power(0, {0, -2, kInfinity, -kInfinity, kNan}).output, {1, 1, 1, 1, 1});
  check_exactly(power(0, {0, -2, kInfinity, -kInfinity, kNan}).input_gradients[0], Values(5, 0));
  CHECK(power(-4, {-3}).output[0] == doctest::Approx(1.0F / 81));
  CHECK(power(0.5, {1e-40F}).output[0] == doctest::Approx(1e-20F).epsilon(1e-4));
}

TEST_CASE("functions of one value: invalid settings are refused") {
  CHECK_THROWS_WITH(
      define({{"type", "clip"}, {"name", "c"}, {"minimum", 2}, {"maximum", 1}}, {{1, 2}}),
      "[clip 'c'] expected \"minimum\" <= \"maximum\", got 2 and 1");
  CHECK_THROWS_WITH(define({{"type", "log"}, {"name", "l"}, {"base", 1}}, {{1, 2}}),
                    "[log 'l'] \"base\": expected a number other than 1, got 1");
  CHECK_THROWS_WITH(define({{"type", "absval"}, {"name", "a"}}, {{1, 2}, {1, 2}}),
                    "[absval 'a'] expected 1 input, got 2");
  CHECK_THROWS_WITH(define({{"type", "elu"}, {"name", "e"}, {"alpha", -1}}, {{1, 2}}),
                    doctest::Contains("alpha"));
}
