// Branches of the GPU's softmax that the tests for all devices do not reach: rows that a whole
// block processes, and blocks with more rows than warps.

#include <doctest/doctest.h>

#include <limits>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

LayerCase loss_case(int64_t classes, std::span<const int32_t> labels, Json json = {}) {
  json["type"] = "softmax_loss";
  LayerCase layer{.json = json, .inputs = {{static_cast<int64_t>(labels.size()), classes}}};
  layer.step.labels = labels;
  layer.step.loss_scale = 0.25F;
  return layer;
}

/// The outputs of the loss layer for one sample.
Values loss_of(const Values& scores, int32_t label) {
  return LayerRunner(loss_case(static_cast<int64_t>(scores.size()), {&label, 1}))
      .forward({.inputs = {scores}});
}

}  // namespace

TEST_CASE("softmax on a GPU: rows for one warp and for one block match the CPU") {
  for (const Shape& shape :
       {Shape{19, 3}, Shape{3, 256}, Shape{3, 257}, Shape{2, 1000}, Shape{2, 21, 5, 3}}) {
    CAPTURE(shape.text());
    const LayerCase layer{.json = {{"type", "softmax"}}, .inputs = {shape}};
    for (const size_t contributions : {1, 3})
      check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
  }
}

TEST_CASE("softmax on a GPU: a score of -inf yields 0, a NaN score makes the whole row NaN") {
  for (const size_t length : {5, 300}) {
    Values scores(length, -kInfinity);
    scores[length / 2] = 3;
    Values expected(length, 0);
    expected[length / 2] = 1;
    LayerRunner runner(
        {.json = {{"type", "softmax"}}, .inputs = {{1, static_cast<int64_t>(length)}}});
    CHECK(runner.forward({.inputs = {scores}}) == expected);
    scores[length - 1] = kNan;
    for (const float value : runner.forward({.inputs = {scores}})) CHECK(std::isnan(value));
  }
}

TEST_CASE("softmax_loss on a GPU: loss, accuracy and gradient match the CPU") {
  for (const int64_t classes : {10, 256, 1000, 2000}) {
    std::vector<int32_t> labels;
    for (int32_t n = 0; n < 11; ++n) labels.push_back(n * 977 % static_cast<int32_t>(classes));
    for (const double smoothing : {0.0, 0.1}) {
      const LayerCase layer =
          loss_case(classes, labels, {{"label_smoothing", smoothing}, {"weight", 0.5}});
      LayerInputs values = random_inputs(LayerRunner(layer), layer, 0);
      for (float& score : values.inputs[0]) score = std::round(20 * score);  // many are equal
      LayerCase of_cpu = layer;
      of_cpu.backend = make_cpu_backend;
      const LayerResults got = LayerRunner(layer).run(values);
      const LayerResults expected = LayerRunner(of_cpu).run(values);
      check_close(got.input_gradients[0], expected.input_gradients[0], 1e-6, "gradient");
      for (size_t n = 0; n < labels.size(); ++n) {
        CHECK(static_cast<double>(got.output[3 * n]) ==
              doctest::Approx(static_cast<double>(expected.output[3 * n])).epsilon(1e-6));
        CHECK(got.output[3 * n + 1] == expected.output[3 * n + 1]);
        CHECK(got.output[3 * n + 2] == expected.output[3 * n + 2]);
      }
    }
  }
}

TEST_CASE("softmax_loss on a GPU: equal scores rank in class order, NaN prevents a top-1 hit") {
  for (const size_t classes : {7, 700}) {
    const Values equal(classes, 5);
    CHECK(loss_of(equal, 0)[1] == 1);
    CHECK(loss_of(equal, 1)[1] == 0);
    CHECK(loss_of(equal, 4)[2] == 1);
    CHECK(loss_of(equal, 5)[2] == 0);
    const auto middle = static_cast<int32_t>(classes / 2);
    Values scores(classes, 0);
    scores[static_cast<size_t>(middle)] = kNan;
    const Values own = loss_of(scores, middle), other = loss_of(scores, 0);
    CHECK(std::isnan(own[0]));
    CHECK(own[2] == 0);
    CHECK(std::isnan(other[0]));
    CHECK(other[1] == 0);
    CHECK(other[2] == 1);
  }
}

TEST_CASE("softmax_loss on a GPU: a confident correct prediction keeps its small loss") {
  const auto loss = static_cast<double>(loss_of({20, 0}, 0)[0]);
  CHECK(loss == doctest::Approx(2.0611537e-9).epsilon(1e-6).scale(0));
}

TEST_CASE("softmax_loss on a GPU: results with mixup labels match the CPU") {
  for (const int64_t classes : {10, 256, 1000}) {
    std::vector<int32_t> labels;
    std::vector<float> mixup_labels, shares;
    for (int64_t n = 0; n < 11; ++n) {
      labels.push_back(static_cast<int32_t>(n * 977 % classes));
      mixup_labels.push_back(static_cast<float>((n * 977 + 1 + n % 7) % classes));
      shares.push_back(static_cast<float>(n % 5) / 8);
    }
    mixup_labels.insert(mixup_labels.end(), shares.begin(), shares.end());
    LayerCase layer = loss_case(classes, labels, {{"label_smoothing", 0.1}});
    layer.step.mixup_labels = mixup_labels;
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 0);
    check_same_as_cpu(layer, values, 1e-5);
    layer.step.phase = layers::Phase::kTest;
    LayerCase of_cpu = layer;
    of_cpu.backend = make_cpu_backend;
    check_close(LayerRunner(layer).forward(values), LayerRunner(of_cpu).forward(values), 1e-5,
                "scalars of a test");
  }
}
