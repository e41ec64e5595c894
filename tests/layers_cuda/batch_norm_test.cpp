// Branches of the GPU's batch norm that the tests for all devices do not reach: several groups of
// channels, bands of rows, several rows per thread.

#include <doctest/doctest.h>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const Json kBatchNorm{{"type", "batch_norm"}, {"name", "bn"}};

LayerCase case_of(const Shape& shape, std::optional<float> relu, bool residual) {
  return {.json = kBatchNorm,
          .inputs = std::vector<Shape>(residual ? 2 : 1, shape),
          .relu = relu,
          .residual = residual};
}

void check(const LayerCase& layer, size_t contributions) {
  CAPTURE(layer.inputs[0].text());
  CAPTURE(contributions);
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
}

/// Compares all results of both devices, including the contributions to statistics.
void check_all(const LayerCase& layer, const LayerInputs& values, double relative) {
  LayerCase of_cpu = layer;
  of_cpu.backend = make_cpu_backend;
  const LayerResults expected = LayerRunner(of_cpu).run(values);
  const LayerResults got = LayerRunner(layer).run(values);
  check_close(got.output, expected.output, relative, "output");
  check_close(got.input_gradients[0], expected.input_gradients[0], relative, "input gradient");
  for (size_t i = 0; i < 2; ++i) {
    check_close(got.parameter_gradients[i], expected.parameter_gradients[i], relative,
                "parameter gradient");
    check_close(got.statistics[i], expected.statistics[i], relative, "statistic");
  }
}

}  // namespace

TEST_CASE("batch_norm on a GPU: channel counts with full and partial packs") {
  // Packs of four channels per row: 1, 5, 10, 24, 72. Packs of eight: 5, 12, 36. 37 channels are
  // single ones in two groups.
  for (const int64_t channels : {4, 20, 40, 96, 288, 37})
    check(case_of({3, channels, 5, 2}, std::nullopt, false), 1);
}

TEST_CASE("batch_norm on a GPU: several rows for each thread") {
  LayerCase layer = case_of({4, 33, 50, 50}, std::nullopt, false);
  check_all(layer, random_inputs(LayerRunner(layer), layer, 1), 1e-5);
}

TEST_CASE("batch_norm on a GPU: several packs for each thread") {
  LayerCase layer = case_of({13, 2048, 7, 7}, std::nullopt, false);
  check_all(layer, random_inputs(LayerRunner(layer), layer, 1), 1e-5);
}

TEST_CASE("batch_norm on a GPU: any number of contributions") {
  for (const size_t contributions : {1, 2, 3, 4, 5, 9}) {
    check(case_of({2, 12, 3, 4}, std::nullopt, false), contributions);
    check(case_of({2, 12, 3, 4}, 0.2F, false), contributions);
    check(case_of({2, 12, 3, 4}, 0.0F, true), contributions);
  }
}

TEST_CASE("batch_norm on a GPU: gradients with running statistics") {
  for (const bool residual : {false, true}) {
    LayerCase layer = case_of({2, 24, 9, 5}, 0.1F, residual);
    layer.step.phase = layers::Phase::kTest;
    check(layer, 2);
  }
}

TEST_CASE("batch_norm on a GPU: unneeded gradients are skipped") {
  for (const size_t contributions : {1, 2})
    for (const bool of_input : {false, true}) {
      LayerCase layer = case_of({2, 12, 3, 4}, 0.0F, true);
      layer.input_needs_gradient = {of_input, !of_input};
      check(layer, contributions);
      layer.in_place = true;
      check(layer, contributions);
    }
}

TEST_CASE("batch_norm on a GPU: means far from zero and outliers cost no precision") {
  for (const float mean : {0.0F, -20000.0F}) {
    CAPTURE(mean);
    LayerCase layer = case_of({3, 6, 40, 16}, std::nullopt, false);
    LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    values.parameters = {Values(6, 1), Values(6, 0)};
    for (float& value : values.inputs[0]) value += mean;
    check_all(layer, values, 4e-6);
    // The kernel subtracts the first value of a plane before it sums.
    for (size_t i = 0; i < values.inputs[0].size(); i += 640) values.inputs[0][i] += 300;
    check_all(layer, values, 4e-6);
  }
}

TEST_CASE("batch_norm on a GPU: a channel of equal values has variance 0") {
  LayerCase layer = case_of({2, 5, 9, 9}, std::nullopt, false);
  LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
  values.inputs[0].assign(values.inputs[0].size(), 0.1F);
  const LayerResults got = LayerRunner(layer).run(values);
  CHECK(got.statistics[0] == Values(5, 0.1F));
  CHECK(got.statistics[1] == Values(5, 0.0F));
}

TEST_CASE("batch_norm on a GPU: a batch with one value per channel") {
  LayerCase layer = case_of({1, 40}, std::nullopt, false);
  check_all(layer, random_inputs(LayerRunner(layer), layer, 1), 1e-5);
}

TEST_CASE("batch_norm on a GPU: test output with residual and relu matches the CPU") {
  LayerCase layer = case_of({3, 44, 5, 3}, 0.1F, true);
  layer.training = false;
  layer.step.phase = layers::Phase::kTest;
  const LayerInputs values = random_inputs(LayerRunner(layer), layer, 0);
  LayerCase of_cpu = layer;
  of_cpu.backend = make_cpu_backend;
  check_close(LayerRunner(layer).forward(values), LayerRunner(of_cpu).forward(values), 1e-6,
              "output");
}
