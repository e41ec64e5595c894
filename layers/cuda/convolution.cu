#include "layers/deconvolution.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "layers/cuda/bias.h"
#include "layers/cuda/convolution_factors.h"
#include "layers/cuda/transpose.cuh"

namespace poseidon::layers::cuda {

namespace {

using ConvolutionPass = ConvolutionProblem::Pass;

/// A convolution or a transposed convolution. A transposed convolution exchanges the forward and
/// backward-data passes of a convolution. The weight and its gradient are fp32. Their packed order
/// is (outputs, kernel height, kernel width, inputs / groups) of the convolution. With bf16
/// activations, the products read the weight rounded to bf16 (ParameterMemory::rounded).
class CudaConvolution final : public CudaLayer {
 public:
  enum class Role : uint8_t { kItself, kTranspose };

  CudaConvolution(const LayerRequest& request, const LayerContext& context,
                  const Convolution& convolution, Role role)
      : CudaLayer(request, context.device),
        convolution_(convolution),
        role_(role),
        relu_(request.relu),
        type_(context.device.activations()),
        products_(context.products),
        bias_gradient_(context.device, request.output_shape.samples() * request.output_shape.area(),
                       request.output_shape.channels(), type_) {
    if (!request.choice.layout.empty())
      throw ConfigError(text(
          "[", request.definition.type(), " '", name_, "'] the layout \"", request.choice.layout,
          "\" is chosen, but a GPU has no choice of layouts; remove \"layout\" from the choices"));
    forward_ = plan(kForward, request.choice);
    if (request.training) {
      if (request.factor_rows == 0) backward_weights_ = plan(kBackwardWeights, request.choice);
      if (request.input_needs_gradient[0]) backward_data_ = plan(kBackwardData, request.choice);
    }
    set_needs();
    if (request.training && request.factor_rows > 0) make_factors(request.factor_rows);
  }

  std::vector<AlgorithmChoice> alternatives() const override {
    std::vector<AlgorithmChoice> others;
    for (const NamedPass& pass : {kForward, kBackwardData, kBackwardWeights}) {
      if ((choice_.*pass.field).empty()) continue;
      for (const std::string& name : products_.alternatives(problem(pass.pass))) {
        if (name == choice_.*pass.field) continue;
        others.push_back(choice_);
        others.back().*pass.field = name;
      }
    }
    return others;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    run(*forward_, {.first = memory.inputs[0].data,
                    .second = weight_of_passes(memory),
                    .result = memory.output.data,
                    .workspace = memory.scratch});
    add_bias(device_, memory.output, has_bias() ? memory.parameters[1].value : nullptr, relu_);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!factors_) compute_parameter_gradients(memory);
    // combine() or write_factors() has summed all output gradients into the first one.
    if (memory.input_gradients[0])
      run(*backward_data_, {.first = memory.output_gradients[0].data,
                            .second = weight_of_passes(memory),
                            .result = memory.input_gradients[0].data,
                            .workspace = memory.scratch});
  }

  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    const Tensor& gradient = combined_gradient(device_, memory, relu_);
    if (factors.deltas != nullptr) factors_->write(memory, gradient, factors);
  }

  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    factors_->rebuild(factors, memory);
    if (sink != nullptr) pass_gradients(memory, *sink);
  }

  void pack(int index, const float* canonical, float* packed) const override {
    if (packed_is_canonical(index)) return CudaLayer::pack(index, canonical, packed);
    transpose(device_, canonical, packed, convolution_.outputs, depth(), taps());
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    if (packed_is_canonical(index)) return CudaLayer::unpack(index, packed, canonical);
    transpose(device_, packed, canonical, convolution_.outputs, taps(), depth());
  }
  bool packed_is_canonical(int index) const override {
    return index > 0 || taps() == 1 || depth() == 1;
  }
  bool reads_rounded(int index) const override { return index == 0 && type_ == DataType::kBf16; }
  void round(int, const float* packed, Bf16* rounded) const override {
    cast(device_, packed, rounded, weight_count());
  }
  std::string packed_order(int index) const override {
    return packed_is_canonical(index) ? CudaLayer::packed_order(index) : "channels last";
  }

 private:
  struct NamedPass {
    ConvolutionPass pass;
    decltype(&AlgorithmChoice::forward) field;
    decltype(&Implementations::forward) implementation;
  };
  static constexpr NamedPass kForward{ConvolutionPass::kForward, &AlgorithmChoice::forward,
                                      &Implementations::forward};
  static constexpr NamedPass kBackwardData{ConvolutionPass::kBackwardData,
                                           &AlgorithmChoice::backward_data,
                                           &Implementations::backward_data};
  static constexpr NamedPass kBackwardWeights{ConvolutionPass::kBackwardWeights,
                                              &AlgorithmChoice::backward_weights,
                                              &Implementations::backward_weights};

  /// The convolution that computes a pass of the layer. A transposed convolution swaps the forward
  /// and the backward data pass.
  ConvolutionProblem problem(ConvolutionPass pass) const {
    if (role_ == Role::kTranspose && pass != ConvolutionPass::kBackwardWeights)
      pass = pass == ConvolutionPass::kForward ? ConvolutionPass::kBackwardData
                                               : ConvolutionPass::kForward;
    return {.pass = pass, .geometry = convolution_, .type = type_};
  }

  /// Plans a pass with the algorithm that `asked` names, or by the fixed rule if `asked` has no
  /// name for the pass. Records the algorithm in choice_ and implementations_.
  std::unique_ptr<Product> plan(const NamedPass& pass, const AlgorithmChoice& asked) {
    auto product = products_.plan(problem(pass.pass), asked.*pass.field);
    choice_.*pass.field = product->name();
    implementations_.*pass.implementation = "cuDNN " + product->name();
    return product;
  }

  void compute_parameter_gradients(const Bindings& memory) const {
    const Tensor& gradient =
        bias_gradient_.combine(memory, relu_, has_bias() ? memory.parameters[1].gradient : nullptr);
    const void *of_output = gradient.data, *of_input = memory.inputs[0].data;
    if (role_ == Role::kTranspose) std::swap(of_output, of_input);
    run(*backward_weights_, {.first = of_output,
                             .second = of_input,
                             .result = memory.parameters[0].gradient,
                             .workspace = memory.scratch});
  }

  void run(const Product& product, const ProductMemory& memory) const {
    device_.issue(product.operation(memory));
  }

  void set_needs() {
    needs_.input_formats = {{Layout::kChannelsLast, type_}};
    needs_.output_format = {Layout::kChannelsLast, type_};
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
    needs_.scratch_bytes = forward_->workspace_bytes();
    for (const auto* product : {&backward_weights_, &backward_data_})
      if (*product)
        needs_.scratch_bytes = std::max(needs_.scratch_bytes, (*product)->workspace_bytes());
    if (backward_weights_ && has_bias())
      needs_.scratch_bytes = std::max(needs_.scratch_bytes, bias_gradient_.scratch_bytes());
  }

  /// `rows`: samples of the stacked factors.
  void make_factors(int64_t rows) {
    implementations_.backward_weights = "Poseidon product";
    factors_.emplace(device_, convolution_, rows, needs_.scratch_bytes);
    needs_.scratch_bytes = factors_->scratch_bytes();
  }

  const void* weight_of_passes(const Bindings& memory) const {
    if (type_ == DataType::kBf16) return memory.parameters[0].rounded;
    return memory.parameters[0].value;
  }

  bool has_bias() const { return parameters_.size() > 1; }
  /// In canonical order, the weight of each output is a matrix of depth() x taps().
  int64_t depth() const { return convolution_.input.channels() / convolution_.groups; }
  int64_t taps() const { return convolution_.kernel[0] * convolution_.kernel[1]; }
  int64_t weight_count() const { return convolution_.outputs * depth() * taps(); }

  const Convolution& convolution_;
  Role role_;
  std::optional<float> relu_;
  DataType type_;
  Products& products_;
  BiasGradient bias_gradient_;
  std::unique_ptr<Product> forward_;
  std::unique_ptr<Product> backward_weights_;  ///< null: not in training, or factors
  std::unique_ptr<Product> backward_data_;     ///< null: not in training, or no input gradient
  std::optional<ConvolutionFactors> factors_;  ///< set if the layer writes factors
};

}  // namespace

std::unique_ptr<Layer> make_convolution(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaConvolution>(request, context,
                                           static_cast<const Convolution&>(request.definition),
                                           CudaConvolution::Role::kItself);
}

std::unique_ptr<Layer> make_deconvolution(const LayerRequest& request,
                                          const LayerContext& context) {
  return std::make_unique<CudaConvolution>(
      request, context, static_cast<const Deconvolution&>(request.definition).convolution,
      CudaConvolution::Role::kTranspose);
}

}  // namespace poseidon::layers::cuda
