#include "layers/linear.h"

#include <algorithm>

#include "layers/cuda/bias.h"
#include "layers/cuda/factors.h"
#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

/// A linear layer. The packed order of the weight is canonical order, which all matrix products
/// read directly.
class CudaLinear final : public CudaLayer {
 public:
  CudaLinear(const LayerRequest& request, const LayerContext& context)
      : CudaLayer(request, context.device),
        linear_(static_cast<const Linear&>(request.definition)),
        relu_(request.relu),
        factor_rows_(request.factor_rows),
        bias_gradient_(context.device, linear_.samples, linear_.outputs, DataType::kFp32) {
    forward_ = context.products.plan(MatrixProblem{.rows = linear_.samples,
                                                   .columns = linear_.outputs,
                                                   .depth = linear_.inputs,
                                                   .transpose_second = true,
                                                   .bias = linear_.bias,
                                                   .relu = relu_ == 0.0F});
    if (request.training || gives_factors()) make_backward(request, context);
    implementations_ = {
        .forward = name_of(forward_),
        .backward_data = name_of(backward_data_),
        .backward_weights = gives_factors() ? "Poseidon product" : name_of(backward_weights_)};
    set_needs();
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float* bias = linear_.bias ? memory.parameters[1].value : nullptr;
    const bool fused = forward_->has_epilogue();
    run(*forward_, {.first = memory.inputs[0].data,
                    .second = memory.parameters[0].value,
                    .result = memory.output.data,
                    .bias = fused ? bias : nullptr,
                    .workspace = memory.scratch});
    if (!fused)
      add_bias(device_, memory.output, bias, relu_);
    else if (relu_ && *relu_ != 0)
      add_bias(device_, memory.output, nullptr, relu_);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!gives_factors()) {
      const Tensor& gradient = bias_gradient_.combine(memory, relu_, bias_gradient_of(memory));
      run(*backward_weights_, {.first = gradient.data,
                               .second = memory.inputs[0].data,
                               .result = memory.parameters[0].gradient,
                               .workspace = memory.scratch});
    }
    // combine() above or write_factors() has summed all output gradients into the first one.
    if (memory.input_gradients[0])
      run(*backward_data_, {.first = memory.output_gradients[0].data,
                            .second = memory.parameters[0].value,
                            .result = memory.input_gradients[0].data,
                            .workspace = memory.scratch});
  }

  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    const Tensor& deltas = combined_gradient(device_, memory, relu_);
    if (factors.deltas == nullptr) return;
    const auto copy = [&](const Tensor& from, float* to, int64_t columns) {
      device_.copy(from.data, to, static_cast<size_t>(linear_.samples * columns) * sizeof(float));
    };
    copy(deltas, factors.deltas, linear_.outputs);
    copy(memory.inputs[0], factors.activations, linear_.inputs);
  }

  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    rebuild_gradients(device_, factor_shape(), factor_rows_,
                      factor_scratch_->copy(device_, factors, memory.scratch),
                      memory.parameters[0].gradient, bias_gradient_of(memory));
    if (sink != nullptr) pass_gradients(memory, *sink);
  }

 private:
  bool gives_factors() const { return factor_rows_ > 0; }

  void make_backward(const LayerRequest& request, const LayerContext& context) {
    if (!gives_factors())
      backward_weights_ = context.products.plan(MatrixProblem{.rows = linear_.outputs,
                                                              .columns = linear_.inputs,
                                                              .depth = linear_.samples,
                                                              .transpose_first = true});
    if (request.input_needs_gradient[0])
      backward_data_ = context.products.plan(MatrixProblem{
          .rows = linear_.samples, .columns = linear_.inputs, .depth = linear_.outputs});
  }

  static std::string name_of(const std::unique_ptr<Product>& product) {
    return product ? "cuBLASLt " + product->name() : "";
  }

  void set_needs() {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
    for (const auto* product : {&forward_, &backward_weights_, &backward_data_})
      if (*product)
        needs_.scratch_bytes = std::max(needs_.scratch_bytes, (*product)->workspace_bytes());
    if (backward_weights_ && linear_.bias)
      needs_.scratch_bytes = std::max(needs_.scratch_bytes, bias_gradient_.scratch_bytes());
    if (!gives_factors()) return;
    factor_scratch_.emplace(factor_shape(), factor_rows_, needs_.scratch_bytes);
    needs_.scratch_bytes = factor_scratch_->scratch_bytes();
  }

  FactorShape factor_shape() const {
    return {.deltas = linear_.outputs, .activations = linear_.inputs};
  }

  float* bias_gradient_of(const Bindings& memory) const {
    return linear_.bias ? memory.parameters[1].gradient : nullptr;
  }

  void run(const Product& product, const ProductMemory& memory) const {
    device_.issue(product.operation(memory));
  }

  const Linear& linear_;
  std::optional<float> relu_;
  int64_t factor_rows_;  ///< samples of stacked factors; 0: the layer gives no factors
  std::optional<FactorScratch> factor_scratch_;  ///< set if the layer writes factors
  BiasGradient bias_gradient_;
  std::unique_ptr<Product> forward_;
  std::unique_ptr<Product> backward_weights_;  ///< null: only forward, or factors
  std::unique_ptr<Product> backward_data_;     ///< null: only forward, or no input gradient
};

}  // namespace

std::unique_ptr<Layer> make_linear(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaLinear>(request, context);
}

}  // namespace poseidon::layers::cuda
