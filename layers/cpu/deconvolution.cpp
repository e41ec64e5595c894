#include "layers/deconvolution.h"

#include <algorithm>

#include "core/error.h"
#include "layers/cpu/bias_gradient.h"
#include "layers/cpu/convolution_parts.h"
#include "layers/cpu/weight_order.h"

namespace poseidon::layers::cpu {

namespace {

/// Adds to each element of `y` the bias of its channel. Padding lanes do not change.
template <class Element>
void add_to_channels(ThreadTeam& team, const float* bias, Element* y, const Blocking& b) {
  for_each_pair(team, b.samples, b.blocks, b.area * b.block, [&](int64_t n, int64_t block) {
    const int64_t channel = block * b.block, used = std::min(b.block, b.channels - channel);
    Element* plane = y + b.offset(n, channel, 0);
    for (int64_t position = 0; position < b.area; ++position)
      for (int64_t lane = 0; lane < used; ++lane)
        plane[position * b.block + lane] = plane[position * b.block + lane] + bias[channel + lane];
  });
}

/// The weight and its gradient are fp32, in the weight order of the convolution.
class CpuDeconvolution final : public PackedWeightLayer {
 public:
  CpuDeconvolution(const LayerRequest& request, CpuDevice& device, DataType type)
      : PackedWeightLayer(request, device),
        deconvolution_(static_cast<const Deconvolution&>(request.definition)),
        onednn_(deconvolution_.convolution, std::nullopt, device.engine()),
        parts_(choose_parts(device, deconvolution_.convolution, onednn_,
                            {.type = type, .layout = request.choice.layout})) {
    choice_.layout = layout_name(parts_.formats.out);
    passes_.forward = make_pass(request, &AlgorithmChoice::forward, make_direct_backward_data,
                                make_product_backward_data);
    if (request.training) {
      passes_.backward_weights =
          make_pass(request, &AlgorithmChoice::backward_weights, make_direct_backward_weights,
                    make_product_backward_weights);
      if (request.input_needs_gradient[0])
        passes_.backward_data = make_pass(request, &AlgorithmChoice::backward_data,
                                          make_direct_forward, make_product_forward);
    }
    implementations_ = passes_.implementations();
    warning_ = reference_code_warning(request, implementations_);
    set_needs();
    order_ = WeightOrder(device_, onednn_.weight_shape(), onednn_.canonical_weight(),
                         parts_.kept_weight);
  }

  std::vector<AlgorithmChoice> alternatives() const override {
    if (parts_.formats.out == Layout::kChannelsLast) return {};
    AlgorithmChoice other = choice_;
    other.layout = layout_name(Layout::kChannelsLast);
    return {other};
  }

  void forward(const StepContext&, const Bindings& memory) override {
    Bindings turned = memory;
    turned.input_gradients = {memory.output};
    passes_.forward->run(turned, memory.inputs[0]);
    if (!deconvolution_.bias) return;
    with_element_of(memory.output.format.type, [&](auto element) {
      add_to_channels(team(), memory.parameters[1].value, memory.output.as<decltype(element)>(),
                      memory.output.blocking());
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& gradient = combined_gradient(team(), memory, std::nullopt);
    if (deconvolution_.bias) sum_bias_gradient(team(), gradient, memory.parameters[1].gradient);
    Bindings turned = memory;
    turned.inputs = {gradient};
    passes_.backward_weights->run(turned, memory.inputs[0]);
    if (!memory.input_gradients[0]) return;
    turned.output = memory.input_gradients[0];
    passes_.backward_data->run(turned, {});
  }

 private:
  std::unique_ptr<ConvolutionPass> make_pass(const LayerRequest& request,
                                             std::string AlgorithmChoice::*pass, PassMaker direct,
                                             PassMaker product) {
    const std::string& asked = request.choice.*pass;
    if (!asked.empty() && asked != kDirect && asked != kProduct)
      throw ConfigError(text("[deconvolution '", name_, "'] unknown algorithm \"", asked,
                             "\": on a CPU, expected \"", kDirect, "\" or \"", kProduct, "\""));
    choice_.*pass = asked;
    return make_direct_or_product(parts_, choice_.*pass, direct, product);
  }

  void set_needs() {
    needs_.input_formats = {{parts_.formats.out, parts_.formats.type}};
    needs_.output_format = {parts_.formats.in, parts_.formats.type};
    needs_.backward_reads_inputs = true;
    needs_.scratch_bytes = passes_.scratch_bytes();
  }

  const Deconvolution& deconvolution_;
  OnednnConvolution onednn_;
  ConvolutionParts parts_;
  /// `forward` is the backward data pass of the convolution, and `backward_data` is its forward
  /// pass.
  ConvolutionPasses passes_;
};

}  // namespace

std::unique_ptr<Layer> make_deconvolution(const LayerRequest& request, CpuDevice& device) {
  return make_for_activations<CpuDeconvolution>(request, device);
}

}  // namespace poseidon::layers::cpu
