#include "tests/support/factor_runner.h"

#include <mutex>

#include "tests/support/layer_runner.h"

namespace poseidon::test {

namespace {

class FactorRunner {
 public:
  FactorRunner(const FactoredCase& factored_case, LayerBackendMaker backend)
      : case_(factored_case),
        backend_(backend(factored_case.threads, factored_case.type)),
        definition_(define(factored_case.json, {factored_case.input}, &output_)),
        layer_(
            backend_.factory->make({.definition = *definition_,
                                    .input_shapes = {factored_case.input},
                                    .output_shape = output_,
                                    .input_formats = {{factored_case.layout, factored_case.type}},
                                    .input_needs_gradient = {true},
                                    .relu = factored_case.relu,
                                    .factor_rows = rows(),
                                    .choice = {}})) {
    for (const layers::ParameterSpec& spec : definition_->parameters()) add_parameter(spec);
    memory_.workspace = take_bytes(layer_->needs().workspace_bytes);
    memory_.scratch = take_bytes(layer_->needs().scratch_bytes);
  }

  FactoredResults run() {
    const layers::FactorShape shape = *definition_->factors();
    const layers::FactorMemory stack{
        .deltas = device_.take_floats(rows() * shape.deltas),
        .activations = device_.take_floats(rows() * shape.activations)};
    for (int64_t batch = 0; batch < case_.batches; ++batch) {
      const int64_t first = batch * case_.input.samples();
      run_batch(batch, {.deltas = stack.deltas + first * shape.deltas,
                        .activations = stack.activations + first * shape.activations});
    }
    rebuild(stack);
    results_.deltas = device_.values_at(stack.deltas, static_cast<size_t>(rows() * shape.deltas));
    results_.activations =
        device_.values_at(stack.activations, static_cast<size_t>(rows() * shape.activations));
    return std::move(results_);
  }

 private:
  int64_t rows() const { return case_.batches * case_.input.samples(); }
  std::byte* take_bytes(size_t bytes) { return reinterpret_cast<std::byte*>(device_.take(bytes)); }

  void add_parameter(const layers::ParameterSpec& spec) {
    const auto index = static_cast<int>(memory_.parameters.size());
    const Values values = random_values(spec.shape.count(), 50 + memory_.parameters.size());
    const int64_t count = layer_->packed_count(index);
    float* value = device_.take_floats(count);
    layer_->pack(index, device_.hold(values), value);
    const Bf16* rounded = nullptr;
    if (layer_->reads_rounded(index)) {
      auto* to = reinterpret_cast<Bf16*>(device_.take(static_cast<size_t>(count) * sizeof(Bf16)));
      layer_->round(index, value, to);
      rounded = to;
    }
    memory_.parameters.push_back(
        {.value = value, .gradient = device_.take_floats(count), .rounded = rounded});
  }

  Tensor hold(const Values& values, const Shape& shape, Format format) {
    const Tensor tensor = device_.take_tensor(shape, format);
    device_.store(values, tensor);
    return tensor;
  }

  void run_batch(int64_t batch, const layers::FactorMemory& factors) {
    const Format in = layer_->needs().input_formats[0], out = layer_->needs().output_format;
    const auto seed = static_cast<uint64_t>(batch) * 10;
    results_.inputs.push_back(random_values(case_.input.count(), seed));
    memory_.inputs = {hold(results_.inputs.back(), case_.input, in)};
    memory_.output = device_.take_tensor(output_, out);
    layer_->forward(layers::StepContext(), memory_);
    memory_.output_gradients.clear();
    results_.output_gradients.push_back(random_values(output_.count(), seed + 1));
    for (size_t k = 0; k < case_.contributions; ++k)
      memory_.output_gradients.push_back(
          hold(random_values(output_.count(), seed + 1 + k), output_, out));
    memory_.input_gradients = {device_.take_tensor(case_.input, in)};
    layer_->write_factors(memory_, factors);
    layer_->backward(layers::StepContext(), memory_);
    results_.input_gradients.push_back(device_.load(memory_.input_gradients[0]));
  }

  void rebuild(const layers::FactorMemory& stack) {
    std::vector<float*> packed;
    for (size_t i = 0; i < memory_.parameters.size(); ++i)
      packed.push_back(device_.take_floats(layer_->packed_count(static_cast<int>(i))));
    std::mutex mutex;
    // The device's work is still running when it calls the sink. The sink issues further work.
    const layers::GradientSink sink = [&](int index, int64_t first, std::span<const float> piece) {
      const std::lock_guard lock(mutex);
      backend_.device->copy(piece, {packed[static_cast<size_t>(index)] + first, piece.size()});
    };
    layer_->rebuild(stack, memory_, case_.with_sink ? &sink : nullptr);
    for (size_t i = 0; i < packed.size(); ++i) {
      const float* gradient = case_.with_sink ? packed[i] : memory_.parameters[i].gradient;
      const int64_t count = definition_->parameters()[i].shape.count();
      float* canonical = device_.take_floats(count);
      layer_->unpack(static_cast<int>(i), gradient, canonical);
      results_.parameter_gradients.push_back(
          device_.values_at(canonical, static_cast<size_t>(count)));
    }
  }

  const FactoredCase& case_;
  LayerBackend backend_;
  DeviceMemory device_{*backend_.device};
  Shape output_;
  std::unique_ptr<layers::Definition> definition_;
  std::unique_ptr<layers::Layer> layer_;
  layers::Bindings memory_;
  FactoredResults results_;
};

}  // namespace

FactoredResults run_with_factors(const FactoredCase& factored_case, LayerBackendMaker backend) {
  return FactorRunner(factored_case, backend).run();
}

}  // namespace poseidon::test
