#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const std::array<int32_t, 4> kClasses{2, 0, 6, 3}, kAlike{1, 0, 0, 1};

LayerCase loss_case(Json json, std::vector<Shape> inputs, std::span<const int32_t> labels = {}) {
  json["name"] = "loss";
  LayerCase layer{.json = std::move(json), .inputs = std::move(inputs)};
  layer.step.labels = labels;
  layer.step.loss_scale = 0.25F;
  return layer;
}

/// The loss of one sample.
double loss_of(const Json& json, const std::vector<Values>& inputs,
               std::span<const int32_t> label = {}) {
  const Shape row{1, static_cast<int64_t>(inputs[0].size())};
  LayerCase layer = loss_case(json, std::vector<Shape>(inputs.size(), row), label);
  return static_cast<double>(LayerRunner(layer).forward({.inputs = inputs})[0]);
}

}  // namespace

TEST_CASE("losses over elements: gradients of values and targets") {
  for (const char* type : {"euclidean_loss", "sigmoid_loss"})
    for (const Shape& shape : {Shape{4, 7}, Shape{2, 3, 5, 4}}) {
      check_gradients_everywhere(loss_case({{"type", type}}, {shape, shape}));
      check_gradients_everywhere(loss_case({{"type", type}, {"weight", 0.3}}, {shape, shape}));
    }
  check_gradients_everywhere(loss_case({{"type", "euclidean_loss"}}, {{2, 12}, {2, 3, 2, 2}}));
}

TEST_CASE("contrastive_loss: gradients of alike and different pairs, near and far") {
  for (const double margin : {0.5, 20.0})
    for (const bool legacy : {false, true})
      check_gradients_everywhere(loss_case(
          {{"type", "contrastive_loss"}, {"margin", margin}, {"legacy", legacy}, {"weight", 2.0}},
          {{4, 6}, {4, 6}}, kAlike));
}

TEST_CASE("infogain_loss: gradients") {
  std::vector<double> matrix;
  for (int i = 0; i < 49; ++i) matrix.push_back(i * 11 % 17 / 8.0 - 0.5);
  for (const Shape& shape : {Shape{4, 7}, Shape{4, 7, 1, 1}})
    for (const double weight : {1.0, 0.3})
      check_gradients_everywhere(loss_case(
          {{"type", "infogain_loss"}, {"matrix", matrix}, {"weight", weight}}, {shape}, kClasses));
}

TEST_CASE("losses of labels: gradients") {
  for (const char* norm : {"l1", "l2"})
    check_gradients_everywhere(
        loss_case({{"type", "hinge_loss"}, {"norm", norm}}, {{4, 7}}, kClasses));
  LayerCase layer = loss_case({{"type", "multinomial_loss"}}, {{4, 7}}, kClasses);
  LayerRunner runner(layer);
  Values probabilities = random_values(28, 1, 0.1F, 0.9F);
  const LayerResults got = runner.run({.inputs = {probabilities}});
  for (size_t n = 0; n < 4; ++n)
    for (size_t c = 0; c < 7; ++c) {
      const bool at_label = static_cast<int32_t>(c) == kClasses[n];
      CHECK(got.input_gradients[0][n * 7 + c] ==
            doctest::Approx(at_label ? -0.25F / probabilities[n * 7 + c] : 0.0F));
    }
}

TEST_CASE("losses: values match their definitions") {
  CHECK(loss_of({{"type", "euclidean_loss"}}, {{1, 5}, {-1, 2}}) == doctest::Approx((4 + 9) / 2.0));
  const auto cross_entropy = [](double score, double target) {
    const double p = 1 / (1 + std::exp(-score));
    return -target * std::log(p) - (1 - target) * std::log(1 - p);
  };
  CHECK(loss_of({{"type", "sigmoid_loss"}}, {{2, -3}, {0.25F, 1}}) ==
        doctest::Approx(cross_entropy(2, 0.25) + cross_entropy(-3, 1)));
  // Large scores do not overflow.
  CHECK(loss_of({{"type", "sigmoid_loss"}}, {{1000, -1000}, {1, 0}}) == 0);
  CHECK(loss_of({{"type", "sigmoid_loss"}}, {{1000, -1000}, {0, 1}}) == 2000);

  const std::array<int32_t, 1> alike{1}, other{0}, second{1};
  const Json contrastive{{"type", "contrastive_loss"}, {"margin", 7.0}};
  CHECK(loss_of(contrastive, {{3, 0}, {0, 4}}, alike) == doctest::Approx(12.5));
  CHECK(loss_of(contrastive, {{3, 0}, {0, 4}}, other) == doctest::Approx((7 - 5) * (7 - 5) / 2.0));
  CHECK(loss_of(contrastive, {{30, 0}, {0, 40}}, other) == 0);
  Json legacy = contrastive;
  legacy["legacy"] = true;
  CHECK(loss_of(legacy, {{1, 0}, {0, 1}}, other) == doctest::Approx((7 - 2) / 2.0));

  // The margin of the label is missed by 1.5. The other two miss theirs by 3 and 0.
  CHECK(loss_of({{"type", "hinge_loss"}}, {{2, -0.5F, -4}}, second) == doctest::Approx(4.5));
  CHECK(loss_of({{"type", "hinge_loss"}, {"norm", "l2"}}, {{2, -0.5F, -4}}, second) ==
        doctest::Approx(2.25 + 9));
  CHECK(loss_of({{"type", "multinomial_loss"}}, {{0.5F, 0.2F, 0.3F}}, second) ==
        doctest::Approx(-std::log(0.2)));
  CHECK(loss_of({{"type", "multinomial_loss"}}, {{1, 0, 0}}, second) ==
        doctest::Approx(-std::log(1e-20)));
}

TEST_CASE("infogain_loss: the identity matrix yields softmax_loss, other rows weight the classes") {
  const std::array<int32_t, 1> second{1};
  const auto infogain = [&](std::vector<double> matrix, Values scores) {
    return loss_of({{"type", "infogain_loss"}, {"matrix", std::move(matrix)}}, {std::move(scores)},
                   second);
  };
  const Values scores{0.5F, -1, 2};
  CHECK(infogain({1, 0, 0, 0, 1, 0, 0, 0, 1}, scores) ==
        doctest::Approx(loss_of({{"type", "softmax_loss"}}, {scores}, second)));
  const double sum = std::exp(0.5) + std::exp(-1) + std::exp(2);
  CHECK(infogain({9, 9, 9, 0.5, 2, -1, 9, 9, 9}, scores) ==
        doctest::Approx(1.5 * std::log(sum) - (0.5 * 0.5 - 1 * 2 - 2)));
  // Large scores do not overflow.
  CHECK(infogain({0, 0, 0, 1, 1, 0, 0, 0, 0}, {1000, 0, -1000}) == doctest::Approx(1000));
}

TEST_CASE("accuracy: the output states if the label is among the top k scores") {
  const std::array<int32_t, 3> labels{0, 1, 2};
  LayerCase layer = loss_case({{"type", "accuracy"}, {"top_k", {1, 2}}}, {{3, 3}}, labels);
  layer.training = false;
  const Values scores{3, 2, 1, 3, 2, 1, 5, 5, 5};
  CHECK(LayerRunner(layer).forward({.inputs = {scores}}) == Values{1, 1, 0, 1, 0, 0});
}

TEST_CASE("losses: invalid shapes, matrices and labels are refused") {
  CHECK_THROWS_WITH(define({{"type", "euclidean_loss"}, {"name", "loss"}}, {{2, 10}, {2, 9}}),
                    "[euclidean_loss 'loss'] values and targets must have equal numbers of "
                    "samples and elements, got 2x10 and 2x9");
  CHECK_THROWS_WITH(define({{"type", "euclidean_loss"}, {"name", "loss"}}, {{2, 10}}),
                    "[euclidean_loss 'loss'] expected 2 inputs, got 1");
  CHECK_THROWS_WITH(define({{"type", "hinge_loss"}, {"name", "loss"}}, {{2, 10, 3, 3}, {2, 1}}),
                    "[hinge_loss 'loss'] expected scores of shape samples x classes, got 2x10x3x3");
  const Json infogain{{"type", "infogain_loss"}, {"name", "loss"}, {"matrix", {1, 0, 0, 1}}};
  CHECK_THROWS_WITH(
      define(infogain, {{2, 3}, {2, 1}}),
      "[infogain_loss 'loss'] \"matrix\": expected 3 x 3 numbers for 3 classes, got 4");
  CHECK_THROWS_WITH(
      define(infogain, {{2, 2, 3, 3}, {2, 1}}),
      "[infogain_loss 'loss'] expected scores of shape samples x classes, got 2x2x3x3");
  LayerCase outside = loss_case(infogain, {{4, 2}}, kClasses);
  LayerRunner of_outside(outside);
  CHECK_THROWS_WITH(
      of_outside.forward(random_inputs(of_outside, outside, 0)),
      "[infogain_loss 'loss'] sample 0 of step 3: label 2 is out of range, expected 0 "
      "to 1 (the network has 2 classes)");
  LayerCase layer = loss_case({{"type", "accuracy"}}, {{4, 5}}, kClasses);
  LayerRunner runner(layer);
  CHECK_THROWS_WITH(runner.forward(random_inputs(runner, layer, 0)),
                    "[accuracy 'loss'] sample 2 of step 3: label 6 is out of range, expected 0 to "
                    "4 (the network has 5 classes)");
}
