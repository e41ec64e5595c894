#include "layers/dropout.h"

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Values dropped_ones(LayerCase layer) {
  LayerRunner runner(layer);
  LayerInputs values = random_inputs(runner, layer, 1);
  for (float& value : values.inputs[0]) value = 1;
  return runner.forward(values);
}

const Json kJson{{"type", "dropout"}, {"name", "drop6"}, {"probability", 0.3}};

}  // namespace

TEST_CASE("dropout: gradients") {
  check_gradients_everywhere({.json = kJson, .inputs = {{2, 5, 3, 4}}});
  check_gradients_everywhere({.json = kJson, .inputs = {{2, 21, 5, 3}}});
  check_gradients_everywhere({.json = kJson, .inputs = {{3, 7}}});
}

TEST_CASE("dropout: the mask depends only on seed, step, name, sample and element") {
  const Shape shape{3, 37, 5, 7};
  layers::StepParameters numbers = kTestStepParameters;
  numbers.first_sample = 56;
  const auto definition = define(kJson, {shape});
  const auto& dropout = static_cast<const layers::Dropout&>(*definition);
  Values expected;
  for (int64_t n = 0; n < shape.samples(); ++n) {
    const RandomStream random = dropout.stream(numbers, n);
    for (int64_t e = 0; e < shape.sample_count(); ++e)
      expected.push_back(random.at(static_cast<uint64_t>(e / 4))[static_cast<size_t>(e % 4)] <
                                 dropout.threshold()
                             ? 0
                             : dropout.scale());
  }
  for (const Layout layout :
       {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16})
    for (int threads : {1, 2}) {
      CAPTURE(std::string(layout_name(layout)));
      CHECK(dropped_ones({.json = kJson,
                          .inputs = {shape},
                          .layout = layout,
                          .threads = threads,
                          .numbers = numbers}) == expected);
    }
  CHECK(dropped_ones({.json = kJson, .inputs = {{3, 37 * 35}}, .numbers = numbers}) == expected);
}

TEST_CASE("dropout: another step, name, seed or sample changes the mask") {
  const LayerCase base{.json = kJson, .inputs = {{1, 64}}};
  const Values first = dropped_ones(base);
  LayerCase other = base;
  other.numbers.step += 1;
  CHECK(dropped_ones(other) != first);
  other = base;
  other.numbers.seed += 1;
  CHECK(dropped_ones(other) != first);
  other = base;
  other.numbers.first_sample += 1;
  CHECK(dropped_ones(other) != first);
  other = base;
  other.json["name"] = "drop7";
  CHECK(dropped_ones(other) != first);
  CHECK(dropped_ones(base) == first);
}

TEST_CASE("dropout: the fraction of dropped elements matches the probability") {
  const Values values = dropped_ones({.json = kJson, .inputs = {{10, 10007}}});
  double sum = 0, zeros = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    zeros += value == 0;
  }
  const auto count = static_cast<double>(values.size());
  CHECK(zeros / count == doctest::Approx(0.3).epsilon(0.02));
  CHECK(sum / count == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("dropout: the layer has no effect in testing") {
  LayerCase layer{
      .json = kJson, .inputs = {{2, 5, 3, 4}}, .layout = Layout::kBlocked8, .training = false};
  layer.step.phase = layers::Phase::kTest;
  LayerRunner runner(layer);
  const LayerInputs values = random_inputs(runner, layer, 1);
  CHECK(runner.forward(values) == values.inputs[0]);
}

TEST_CASE("dropout: a probability of 1 is refused") {
  CHECK_THROWS_WITH(define({{"type", "dropout"}, {"name", "d"}, {"probability", 1}}, {{2, 3}}),
                    "[dropout 'd'] \"probability\": expected a number < 1, got 1");
}
