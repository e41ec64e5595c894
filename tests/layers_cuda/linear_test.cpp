// Branches of the GPU's linear layer that the tests for all devices do not reach.

#include <doctest/doctest.h>

#include "tests/layers_cuda/compare_with_cpu.h"
#include "tests/support/factor_runner.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr int64_t kSamples = 3;

void check(const Json& fields, Shape input, std::optional<float> relu, size_t contributions) {
  Json json = fields;
  json["type"] = "linear";
  CAPTURE(json.dump());
  CAPTURE(contributions);
  const LayerCase layer{.json = json, .inputs = {input}, .relu = relu};
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
}

void check_factors(const Json& fields, int64_t inputs, std::optional<float> relu,
                   size_t contributions, bool with_sink) {
  Json json = fields;
  json["type"] = "linear";
  CAPTURE(json.dump());
  CAPTURE(contributions);
  CAPTURE(with_sink);
  const FactoredCase each{.json = json,
                          .input = {kSamples, inputs},
                          .relu = relu,
                          .contributions = contributions,
                          .with_sink = with_sink};
  const FactoredResults expected = run_with_factors(each, make_cpu_backend),
                        got = run_with_factors(each, make_layer_backend);
  check_close(got.deltas, expected.deltas, 1e-5, "deltas");
  check_close(got.activations, expected.activations, 0, "activations");
  for (size_t i = 0; i < expected.input_gradients.size(); ++i)
    check_close(got.input_gradients[i], expected.input_gradients[i], 1e-5, "input gradient");
  for (size_t i = 0; i < expected.parameter_gradients.size(); ++i)
    check_close(got.parameter_gradients[i], expected.parameter_gradients[i], 1e-5,
                "parameter gradient");
}

}  // namespace

TEST_CASE("cuda linear: output counts that do not fill a pack, with 1 to 5 contributions") {
  for (const int64_t outputs : {1, 3, 6, 10, 33})
    for (size_t contributions = 1; contributions <= 5; ++contributions)
      check({{"outputs", outputs}}, {7, 5}, 0.0F, contributions);
}

TEST_CASE("cuda linear: several blocks sum the bias gradient") {
  check({{"outputs", 1101}}, {37, 3}, std::nullopt, 1);
  check({{"outputs", 7}}, {3001, 4}, 0.1F, 2);
}

TEST_CASE("cuda linear: relu, leaky relu or none, with and without bias") {
  for (const bool bias : {true, false})
    for (const std::optional<float> relu : {std::optional<float>(), {0.0F}, {0.1F}})
      check({{"outputs", 6}, {"bias", bias}}, {5, 9}, relu, 1);
}

TEST_CASE("cuda linear: factors, and gradients rebuilt from the factors of several batches") {
  for (const bool with_sink : {false, true}) {
    check_factors({{"outputs", 300}}, 70, 0.1F, 1, with_sink);
    check_factors({{"outputs", 5}}, 7, 0.0F, 3, with_sink);
    check_factors({{"outputs", 6}, {"bias", false}}, 8, std::nullopt, 5, with_sink);
  }
}

TEST_CASE("cuda linear: contributions are summed also if no factors are requested") {
  const LayerBackend backend = make_layer_backend(1, DataType::kFp32);
  Shape output;
  const auto definition =
      define({{"type", "linear"}, {"outputs", 1}, {"bias", false}}, {{1, 2}}, &output);
  const auto layer = backend.factory->make({.definition = *definition,
                                            .input_shapes = {{1, 2}},
                                            .output_shape = output,
                                            .input_formats = {kPlainFp32},
                                            .input_needs_gradient = {true},
                                            .relu = std::nullopt,
                                            .factor_rows = 1,
                                            .choice = {}});
  DeviceMemory device(*backend.device);
  const Tensor made = device.take_tensor({1, 2}, kPlainFp32);
  const layers::Bindings memory{
      .inputs = {{device.hold({0, 0}), {1, 2}, kPlainFp32}},
      .output = {},
      .output_gradients = {{device.hold({1}), output, kPlainFp32},
                           {device.hold({4}), output, kPlainFp32}},
      .input_gradients = {made},
      .parameters = {{.value = device.hold({2, 3}), .gradient = device.take_floats(2)}},
      .statistics = {},
      .scratch = reinterpret_cast<std::byte*>(device.take(layer->needs().scratch_bytes))};
  layer->write_factors(memory, {});
  layer->backward(layers::StepContext(), memory);
  CHECK(device.load(made) == Values{10, 15});
}
