// Branches of the GPU's linear layer that the tests for all devices do not reach.

#include <doctest/doctest.h>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr int64_t kSamples = 3, kBatches = 2, kRows = kSamples * kBatches;

void check(const Json& fields, Shape input, std::optional<float> relu, size_t contributions) {
  Json json = fields;
  json["type"] = "linear";
  CAPTURE(json.dump());
  CAPTURE(contributions);
  const LayerCase layer{.json = json, .inputs = {input}, .relu = relu};
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
}

/// Results of a layer with factors over several batches.
struct Factored {
  Values deltas, activations;
  std::vector<Values> input_gradients;
  std::vector<Values> parameter_gradients;
};

/// A linear layer with factors on one device, and its memory.
class FactorLayer {
 public:
  FactorLayer(LayerBackendMaker backend, const layers::Definition& definition, const Shape& input,
              const Shape& output, std::optional<float> relu)
      : backend_(backend(1, DataType::kFp32)),
        definition_(definition),
        input_(input),
        output_(output),
        layer_(backend_.factory->make({.definition = definition,
                                       .input_shapes = {input},
                                       .output_shape = output,
                                       .input_formats = {kPlainFp32},
                                       .input_needs_gradient = {true},
                                       .relu = relu,
                                       .factor_rows = kRows,
                                       .choice = {}})) {
    for (const layers::ParameterSpec& spec : definition.parameters()) {
      const auto index = static_cast<int>(memory_.parameters.size());
      const Values values = random_values(spec.shape.count(), 50 + memory_.parameters.size());
      float* value = device_.take_floats(layer_->packed_count(index));
      layer_->pack(index, device_.hold(values), value);
      memory_.parameters.push_back(
          {.value = value, .gradient = device_.take_floats(layer_->packed_count(index))});
    }
    memory_.workspace = take_bytes(layer_->needs().workspace_bytes);
    memory_.scratch = take_bytes(layer_->needs().scratch_bytes);
  }

  /// `with_sink`: the parameter gradients are those that the sink receives.
  Factored run(size_t contributions, bool with_sink) {
    Factored results;
    const int64_t deltas = kRows * output_.channels(), activations = kRows * input_.sample_count();
    const layers::FactorMemory stack{.deltas = device_.take_floats(deltas),
                                     .activations = device_.take_floats(activations)};
    for (int64_t batch = 0; batch < kBatches; ++batch)
      results.input_gradients.push_back(
          run_batch(batch, contributions,
                    {.deltas = stack.deltas + batch * output_.count(),
                     .activations = stack.activations + batch * input_.count()}));
    rebuild(stack, with_sink, results);
    results.deltas = device_.values_at(stack.deltas, static_cast<size_t>(deltas));
    results.activations = device_.values_at(stack.activations, static_cast<size_t>(activations));
    return results;
  }

 private:
  std::byte* take_bytes(size_t bytes) { return reinterpret_cast<std::byte*>(device_.take(bytes)); }
  Tensor random_tensor(const Shape& shape, uint64_t seed) {
    return {device_.hold(random_values(shape.count(), seed)), shape, kPlainFp32};
  }

  Values run_batch(int64_t batch, size_t contributions, const layers::FactorMemory& factors) {
    const auto seed = static_cast<uint64_t>(batch) * 10;
    memory_.inputs = {random_tensor(input_, seed)};
    memory_.output = device_.take_tensor(output_, kPlainFp32);
    layer_->forward(layers::StepContext(), memory_);
    memory_.output_gradients.clear();
    for (size_t k = 0; k < contributions; ++k)
      memory_.output_gradients.push_back(random_tensor(output_, seed + 1 + k));
    memory_.input_gradients = {device_.take_tensor(input_, kPlainFp32)};
    layer_->write_factors(memory_, factors);
    layer_->backward(layers::StepContext(), memory_);
    return device_.load(memory_.input_gradients[0]);
  }

  void rebuild(const layers::FactorMemory& stack, bool with_sink, Factored& results) {
    std::vector<float*> packed;
    for (size_t i = 0; i < memory_.parameters.size(); ++i)
      packed.push_back(device_.take_floats(layer_->packed_count(static_cast<int>(i))));
    // The device's work is still running when it calls the sink. The sink issues further work.
    const layers::GradientSink sink = [&](int index, int64_t first, std::span<const float> piece) {
      backend_.device->copy(piece, {packed[static_cast<size_t>(index)] + first, piece.size()});
    };
    layer_->rebuild(stack, memory_, with_sink ? &sink : nullptr);
    for (size_t i = 0; i < packed.size(); ++i) {
      const float* gradient = with_sink ? packed[i] : memory_.parameters[i].gradient;
      const int64_t count = definition_.parameters()[i].shape.count();
      float* canonical = device_.take_floats(count);
      layer_->unpack(static_cast<int>(i), gradient, canonical);
      results.parameter_gradients.push_back(
          device_.values_at(canonical, static_cast<size_t>(count)));
    }
  }

  LayerBackend backend_;
  DeviceMemory device_{*backend_.device};
  const layers::Definition& definition_;
  Shape input_, output_;
  std::unique_ptr<layers::Layer> layer_;
  layers::Bindings memory_;
};

void check_factors(const Json& fields, int64_t inputs, std::optional<float> relu,
                   size_t contributions, bool with_sink) {
  Json json = fields;
  json["type"] = "linear";
  CAPTURE(json.dump());
  CAPTURE(contributions);
  CAPTURE(with_sink);
  const Shape input{kSamples, inputs};
  Shape output;
  const auto definition = define(json, {input}, &output);
  const auto run = [&](LayerBackendMaker backend) {
    return FactorLayer(backend, *definition, input, output, relu).run(contributions, with_sink);
  };
  const Factored expected = run(make_cpu_backend), got = run(make_layer_backend);
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
