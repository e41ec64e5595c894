#include <doctest/doctest.h>

#include <vector>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// Lengths of rows that a warp processes, and of rows that a block processes.
const std::vector<int64_t> kLengths{3, 256, 257, 1000};

LayerCase loss_case(Json json, std::vector<Shape> inputs, std::span<const int32_t> labels = {}) {
  LayerCase layer{.json = std::move(json), .inputs = std::move(inputs)};
  layer.step.labels = labels;
  layer.step.loss_scale = 0.25F;
  return layer;
}

void check_loss(const LayerCase& layer) {
  CAPTURE(layer.json["type"].dump());
  check_same_as_cpu(layer, random_inputs(LayerRunner(layer), layer, 0), 1e-5);
}

std::vector<int32_t> labels_below(int64_t classes) {
  std::vector<int32_t> labels;
  for (int64_t n = 0; n < 11; ++n) labels.push_back(static_cast<int32_t>(n * 977 % classes));
  return labels;
}

}  // namespace

TEST_CASE("losses over elements on a GPU: results match the CPU") {
  for (const int64_t length : kLengths) {
    const Shape rows{11, length};
    for (const char* type : {"euclidean_loss", "sigmoid_loss"})
      check_loss(loss_case({{"type", type}, {"weight", 0.5}}, {rows, rows}));
  }
  check_loss(loss_case({{"type", "euclidean_loss"}}, {{2, 3, 5, 4}, {2, 3, 5, 4}}));
}

TEST_CASE("contrastive_loss on a GPU: results match the CPU") {
  for (const int64_t length : kLengths)
    for (const bool legacy : {false, true}) {
      const std::vector<int32_t> alike = labels_below(2);
      check_loss(loss_case({{"type", "contrastive_loss"}, {"margin", 15.0}, {"legacy", legacy}},
                           {{11, length}, {11, length}}, alike));
    }
}

TEST_CASE("losses of labels on a GPU: results match the CPU") {
  for (const int64_t length : kLengths) {
    const std::vector<int32_t> labels = labels_below(length);
    for (const char* norm : {"l1", "l2"})
      check_loss(loss_case({{"type", "hinge_loss"}, {"norm", norm}}, {{11, length}}, labels));
    const LayerCase layer = loss_case({{"type", "multinomial_loss"}}, {{11, length}}, labels);
    check_same_as_cpu(layer, {.inputs = {random_values(11 * length, 2, 0.01F, 1)}}, 1e-5);
  }
}

TEST_CASE("infogain_loss on a GPU: results match the CPU") {
  for (const int64_t length : {3, 256, 257}) {
    const std::vector<int32_t> labels = labels_below(length);
    std::vector<double> matrix;
    for (int64_t i = 0; i < length * length; ++i)
      matrix.push_back(static_cast<double>(i * 31 % 101) / 64 - 0.25);
    check_loss(loss_case({{"type", "infogain_loss"}, {"matrix", matrix}, {"weight", 0.5}},
                         {{11, length}}, labels));
  }
}

TEST_CASE("accuracy on a GPU: results match the CPU") {
  for (const int64_t classes : kLengths) {
    const std::vector<int32_t> labels = labels_below(classes);
    LayerCase layer =
        loss_case({{"type", "accuracy"}, {"top_k", {1, 2, 100}}}, {{11, classes}}, labels);
    layer.input_needs_gradient = {false};
    LayerInputs values = random_inputs(LayerRunner(layer), layer, 0);
    for (float& score : values.inputs[0]) score = std::round(20 * score);  // many are equal
    LayerCase of_cpu = layer;
    of_cpu.backend = make_cpu_backend;
    CHECK(LayerRunner(layer).forward(values) == LayerRunner(of_cpu).forward(values));
  }
}
