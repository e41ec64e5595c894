#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const std::array<int32_t, 4> kLabels{2, 0, 6, 3};

LayerCase loss_case(Json json, Shape scores = {4, 7}) {
  json["type"] = "softmax_loss";
  json["name"] = "loss";
  LayerCase layer{.json = json, .inputs = {scores}};
  layer.step.labels = std::span(kLabels).first(static_cast<size_t>(scores.samples()));
  layer.step.loss_scale = 0.25F;
  return layer;
}

Values loss_of(const Values& scores, int32_t label) {
  LayerCase layer = loss_case({}, {1, static_cast<int64_t>(scores.size())});
  layer.step.labels = std::span(&label, 1);
  return LayerRunner(layer).forward({.inputs = {scores}});
}

bool is_top1(const Values& scalars) { return scalars[1] == 1; }
bool is_top5(const Values& scalars) { return scalars[2] == 1; }

}  // namespace

TEST_CASE("softmax: gradients over features and over the channels of an image") {
  check_gradients_everywhere({.json = {{"type", "softmax"}}, .inputs = {{3, 7}}});
  check_gradients_everywhere({.json = {{"type", "softmax"}}, .inputs = {{2, 5, 9, 8}}},
                             {.most_elements = 12});
}

TEST_CASE("softmax: large scores do not overflow") {
  LayerRunner runner({.json = {{"type", "softmax"}}, .inputs = {{1, 3}}});
  const Values got = runner.forward({.inputs = {{1000, 999, -1000}}});
  const float first = 1 / (1 + std::exp(-1.0F));
  check_close(got, {first, 1 - first, 0}, 1e-6, "softmax");
}

TEST_CASE("softmax_loss: gradients with loss weight and label smoothing") {
  check_gradients_everywhere(loss_case({}));
  check_gradients_everywhere(loss_case({{"weight", 0.3}, {"label_smoothing", 0.1}}));
  check_gradients_everywhere(loss_case({}, {2, 21, 1, 1}));
}

namespace {

/// Mixup: the second labels 1, 5, 6, 3, then their weights. The last two samples are not mixed.
const std::array<float, 8> kMixupLabels{1, 5, 6, 3, 0.3F, 0.5F, 0, 0};

LayerCase mixed_case(Json json) {
  LayerCase layer = loss_case(std::move(json));
  layer.step.mixup_labels = kMixupLabels;
  return layer;
}

}  // namespace

TEST_CASE("softmax_loss: gradients with mixup labels") {
  check_gradients_everywhere(mixed_case({}));
  check_gradients_everywhere(mixed_case({{"weight", 0.3}, {"label_smoothing", 0.1}}));
}

TEST_CASE("softmax_loss: lambda weights both mixup labels, and accuracy uses the first label") {
  const LayerCase mixed = mixed_case({{"label_smoothing", 0.1}});
  LayerCase of_first = mixed, of_second = mixed;
  const std::array<int32_t, 4> seconds{1, 5, 6, 3};
  of_first.step.mixup_labels = of_second.step.mixup_labels = {};
  of_second.step.labels = seconds;
  const LayerInputs values = random_inputs(LayerRunner(of_first), of_first, 0);
  const LayerResults got = LayerRunner(mixed).run(values),
                     first = LayerRunner(of_first).run(values),
                     second = LayerRunner(of_second).run(values);
  const auto between = [&](size_t sample, float a, float b) {
    const float share = kMixupLabels[4 + sample];
    return doctest::Approx((1 - share) * a + share * b).epsilon(1e-5);
  };
  for (size_t n = 0; n < 4; ++n) {
    CHECK(got.output[3 * n] == between(n, first.output[3 * n], second.output[3 * n]));
    CHECK(got.output[3 * n + 1] == first.output[3 * n + 1]);
    CHECK(got.output[3 * n + 2] == first.output[3 * n + 2]);
    for (size_t c = 0; c < 7; ++c)
      CHECK(got.input_gradients[0][7 * n + c] ==
            between(n, first.input_gradients[0][7 * n + c], second.input_gradients[0][7 * n + c]));
  }
}

TEST_CASE("softmax_loss: tests ignore mixup, and an out-of-range second label is refused") {
  LayerCase mixed = mixed_case({});
  mixed.step.phase = layers::Phase::kTest;
  LayerCase plain = mixed;
  plain.step.mixup_labels = {};
  const LayerInputs values = random_inputs(LayerRunner(plain), plain, 0);
  CHECK(LayerRunner(mixed).forward(values) == LayerRunner(plain).forward(values));
  const std::array<float, 8> outside{1, 7, 6, 3, 0.3F, 0.5F, 0, 0};
  mixed.step.mixup_labels = outside;
  LayerRunner runner(mixed);
  CHECK_THROWS_WITH(runner.forward(values),
                    "[softmax_loss 'loss'] sample 1 of step 3: label 7 is out of range, expected 0 "
                    "to 6 (the network has 7 classes)");
}

TEST_CASE("softmax_loss: loss, top-1 and top-5 match their definitions") {
  const Values got = loss_of({1, 3, 2}, 2);
  CHECK(got[0] == doctest::Approx(std::log(std::exp(-1.0) + std::exp(1.0) + 1)));
  CHECK(is_top1(got) == false);
  CHECK(is_top1(loss_of({1, 3, 2}, 1)));
  const Values falling{7, 6, 5, 4, 3, 2, 1};
  CHECK(is_top5(loss_of(falling, 4)));
  CHECK(!is_top1(loss_of(falling, 4)));
  CHECK(!is_top5(loss_of(falling, 5)));
}

TEST_CASE("softmax_loss: equal scores rank in class order") {
  const Values equal(6, 5);
  CHECK(is_top1(loss_of(equal, 0)));
  CHECK(!is_top1(loss_of(equal, 1)));
  CHECK(is_top5(loss_of(equal, 4)));
  CHECK(!is_top5(loss_of(equal, 5)));
}

TEST_CASE("softmax_loss: a NaN score of the label yields a NaN loss and no top-5 hit") {
  const Values got = loss_of({1, std::numeric_limits<float>::quiet_NaN(), 2, 0, 0, 0}, 1);
  CHECK(std::isnan(got[0]));
  CHECK(!is_top5(got));
}

TEST_CASE("softmax_loss: a confident correct prediction keeps its small loss") {
  CHECK(loss_of({20, 0}, 0)[0] == doctest::Approx(2.0611537e-9).epsilon(1e-3));
}

TEST_CASE("softmax_loss: the error names sample, step and label if a label is out of range") {
  LayerCase layer = loss_case({});
  const std::array<int32_t, 4> labels{2, 0, 7, 3};
  layer.step.labels = labels;
  layer.numbers.first_sample = 40;
  LayerRunner runner(layer);
  CHECK_THROWS_AS(runner.forward(random_inputs(runner, layer, 0)), RunError);
  CHECK_THROWS_WITH(
      runner.forward(random_inputs(runner, layer, 0)),
      "[softmax_loss 'loss'] sample 42 of step 3: label 7 is out of range, expected 0 "
      "to 6 (the network has 7 classes)");
}

TEST_CASE("softmax_loss: scores of a wrong shape are refused") {
  CHECK_THROWS_WITH(
      define({{"type", "softmax_loss"}, {"name", "loss"}}, {{2, 10, 3, 3}, {2, 1}}),
      "[softmax_loss 'loss'] expected scores of shape samples x classes, got 2x10x3x3 "
      "(is a pooling or linear layer missing before this layer?)");
}
