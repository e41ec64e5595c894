#include "layers/convolution.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "layers/cpu/convolution_factors.h"
#include "layers/cpu/convolution_parts.h"
#include "layers/cpu/weight_order.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// The weight and its gradient are fp32, in the order of ConvolutionParts::kept_weight.
/// choose_parts() selects the order of Poseidon's depthwise code or product, or else of oneDNN's
/// fp32 forward pass, even if activations are bf16.
class CpuConvolution final : public PackedWeightLayer {
 public:
  CpuConvolution(const LayerRequest& request, CpuDevice& device, DataType type)
      : PackedWeightLayer(request, device),
        convolution_(static_cast<const Convolution&>(request.definition)),
        onednn_(convolution_, request.relu, device.engine()),
        parts_(choose_parts(device, convolution_, onednn_,
                            {.type = type,
                             .layout = request.choice.layout,
                             .relu = request.relu,
                             .training = request.training})) {
    choice_.layout = layout_name(parts_.formats.out);
    passes_.forward = make_pass(request, &AlgorithmChoice::forward,
                                {make_winograd_forward, make_direct_forward, make_product_forward});
    if (request.training) {
      if (request.factor_rows > 0)
        factors_.emplace(parts_, request.factor_rows);
      else
        passes_.backward_weights =
            make_pass(request, &AlgorithmChoice::backward_weights,
                      {make_winograd_backward_weights, make_direct_backward_weights,
                       make_product_backward_weights});
      if (request.input_needs_gradient[0])
        passes_.backward_data = make_pass(
            request, &AlgorithmChoice::backward_data,
            {make_winograd_backward_data, make_direct_backward_data, make_product_backward_data});
    }
    implementations_ = passes_.implementations();
    if (factors_) implementations_.backward_weights = factors_->implementation();
    warning_ = reference_code_warning(request, implementations_);
    set_needs();
    order_ = WeightOrder(device_, onednn_.weight_shape(), onednn_.canonical_weight(),
                         parts_.kept_weight);
  }

  std::vector<AlgorithmChoice> alternatives() const override {
    std::vector<AlgorithmChoice> others;
    if (winograd_is_legal(parts_)) {
      for (std::string AlgorithmChoice::*pass :
           {&AlgorithmChoice::forward, &AlgorithmChoice::backward_data,
            &AlgorithmChoice::backward_weights}) {
        if ((choice_.*pass).empty()) continue;
        others.push_back(choice_);
        others.back().*pass = choice_.*pass == kWinograd ? kDirect : kWinograd;
      }
    }
    if (parts_.formats.out != Layout::kChannelsLast) {
      others.push_back(choice_);
      others.back().layout = layout_name(Layout::kChannelsLast);
    }
    return others;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    passes_.forward->run(memory, {});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!factors_)
      passes_.backward_weights->run(memory, combined_gradient(team(), memory, parts_.relu));
    // output_gradients[0] now has the sum of all gradients, from the call above or from
    // write_factors().
    if (memory.input_gradients[0]) passes_.backward_data->run(memory, memory.output_gradients[0]);
  }

  void write_factors(const Bindings& memory, const FactorMemory& factors) override {
    const Tensor& gradient = combined_gradient(team(), memory, parts_.relu);
    if (factors.deltas != nullptr) factors_->write(memory, gradient, factors);
  }

  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override {
    factors_->rebuild(factors, memory, sink);
  }

 private:
  struct PassMakers {
    PassMaker winograd, direct, product;
  };

  /// Creates a pass by the algorithm in the request's choice, or by the fixed rule. If the
  /// requested algorithm is not legal for this convolution, uses another one. Records the algorithm
  /// in choice_.
  std::unique_ptr<ConvolutionPass> make_pass(const LayerRequest& request,
                                             std::string AlgorithmChoice::*pass,
                                             const PassMakers& makers) {
    const std::string& asked = request.choice.*pass;
    if (!asked.empty() && asked != kDirect && asked != kWinograd && asked != kProduct)
      throw ConfigError(text("[convolution '", name_, "'] unknown algorithm \"", asked,
                             "\": on a CPU, expected \"", kDirect, "\", \"", kProduct, "\" or \"",
                             kWinograd, "\""));
    choice_.*pass = asked;
    const bool by_winograd = winograd_is_legal(parts_) &&
                             (asked.empty() ? winograd_is_faster(parts_) : asked == kWinograd);
    if (!by_winograd)
      return make_direct_or_product(parts_, choice_.*pass, makers.direct, makers.product);
    choice_.*pass = kWinograd;
    return makers.winograd(parts_);
  }

  void set_needs() {
    needs_.input_formats = {{parts_.formats.in, parts_.formats.type}};
    needs_.output_format = {parts_.formats.out, parts_.formats.type};
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = parts_.relu.has_value();
    needs_.scratch_bytes = passes_.scratch_bytes();
    if (factors_) needs_.scratch_bytes = std::max(needs_.scratch_bytes, factors_->scratch_bytes());
  }

  const Convolution& convolution_;
  OnednnConvolution onednn_;
  ConvolutionParts parts_;
  ConvolutionPasses passes_;
  std::optional<ConvolutionFactors> factors_;  ///< set if the layer writes factors
};

}  // namespace

std::unique_ptr<Layer> make_convolution(const LayerRequest& request, CpuDevice& device) {
  return make_for_activations<CpuConvolution>(request, device);
}

}  // namespace poseidon::layers::cpu
