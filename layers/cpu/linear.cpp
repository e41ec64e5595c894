#include "layers/linear.h"

#include <algorithm>
#include <optional>

#include "layers/cpu/factors.h"
#include "layers/cpu/linear_product.h"
#include "layers/cpu/weight_order.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

product::LinearSizes sizes_of(const Linear& linear) {
  return {.samples = linear.samples, .inputs = linear.inputs, .outputs = linear.outputs};
}

/// All passes are Poseidon's own product, and read or write the weight in one order.
class CpuLinear final : public PackedWeightLayer {
 public:
  CpuLinear(const LayerRequest& request, CpuDevice& device)
      : PackedWeightLayer(request, device),
        linear_(static_cast<const Linear&>(request.definition)),
        relu_(request.relu),
        writes_factors_(request.factor_rows > 0),
        forward_(sizes_of(linear_), device.team()),
        backward_data_(sizes_of(linear_), device.team()) {
    const MemoryDesc weight = product::linear_weight_order(sizes_of(linear_));
    order_ = WeightOrder(device_, {linear_.outputs, linear_.inputs},
                         {{linear_.outputs, linear_.inputs}, kFloat, FormatTag::oi}, weight);
    needs_.scratch_bytes = forward_.scratch_bytes();
    implementations_.forward = kProduct;
    if (request.training) make_backward(request);
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    forward_.run({.x = memory.inputs[0].as<float>(),
                  .weight = memory.parameters[0].value,
                  .bias = linear_.bias ? memory.parameters[1].value : nullptr,
                  .relu = relu_,
                  .y = memory.output.as<float>(),
                  .scratch = reinterpret_cast<float*>(memory.scratch)});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!writes_factors_)
      gradient_->run({.deltas = combined_gradient(team(), memory, relu_).as<float>(),
                      .activations = memory.inputs[0].as<float>()},
                     memory, nullptr);
    // output_gradients[0] now has the sum of all gradients, from the call above or from
    // write_factors().
    if (!memory.input_gradients[0]) return;
    backward_data_.run({.dy = memory.output_gradients[0].as<float>(),
                        .weight = memory.parameters[0].value,
                        .dx = memory.input_gradients[0].as<float>(),
                        .scratch = reinterpret_cast<float*>(memory.scratch)});
  }

  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    const auto* deltas = combined_gradient(team(), memory, relu_).as<float>();
    if (factors.deltas == nullptr) return;
    std::copy_n(deltas, linear_.samples * linear_.outputs, factors.deltas);
    std::copy_n(memory.inputs[0].as<float>(), linear_.samples * linear_.inputs,
                factors.activations);
  }

  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    gradient_->run(factors, memory, sink);
  }

 private:
  static constexpr const char* kProduct = "Poseidon product";

  void make_backward(const LayerRequest& request) {
    gradient_.emplace(device_, *linear_.factors(),
                      writes_factors_ ? request.factor_rows : linear_.samples);
    needs_.scratch_bytes = std::max(needs_.scratch_bytes, gradient_->scratch_bytes());
    implementations_.backward_weights = kProduct;
    if (!request.input_needs_gradient[0]) return;
    needs_.scratch_bytes = std::max(needs_.scratch_bytes, backward_data_.scratch_bytes());
    implementations_.backward_data = kProduct;
  }

  const Linear& linear_;
  std::optional<float> relu_;
  bool writes_factors_;
  product::LinearForward forward_;
  product::LinearBackwardData backward_data_;
  std::optional<FactorRebuild> gradient_;  ///< set in training
};

}  // namespace

std::unique_ptr<Layer> make_linear(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuLinear>(request, device);
}

}  // namespace poseidon::layers::cpu
