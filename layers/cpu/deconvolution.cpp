#include "layers/deconvolution.h"

#include <algorithm>

#include "core/error.h"
#include "layers/cpu/convolution_parts.h"
#include "layers/cpu/weight_order.h"

namespace poseidon::layers::cpu {

namespace {

/// Lanes that are summed together.
constexpr int64_t kLanesOfSum = 16;

/// y += bias of its channel. Lanes of padding stay as they are.
template <class Element>
void add_to_channels(const float* bias, Element* y, const Blocking& b) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t n = 0; n < b.samples; ++n)
    for (int64_t block = 0; block < b.blocks; ++block) {
      const int64_t channel = block * b.block, used = std::min(b.block, b.channels - channel);
      Element* plane = y + b.offset(n, channel, 0);
      for (int64_t position = 0; position < b.area; ++position)
        for (int64_t lane = 0; lane < used; ++lane)
          plane[position * b.block + lane] =
              plane[position * b.block + lane] + bias[channel + lane];
    }
}

/// Of the channels from `channel` on, at most kLanesOfSum of one block, by one thread.
template <class Element>
void sum_channels(const Element* y, const Blocking& b, int64_t channel, float* sums) {
  const int64_t lanes = std::min({kLanesOfSum, b.block - channel % b.block, b.channels - channel});
  double lane_sums[kLanesOfSum] = {};
  for (int64_t n = 0; n < b.samples; ++n) {
    const Element* plane = y + b.offset(n, channel, 0);
    for (int64_t position = 0; position < b.area; ++position)
      for (int64_t lane = 0; lane < lanes; ++lane)
        lane_sums[lane] +=
            static_cast<double>(static_cast<float>(plane[position * b.block + lane]));
  }
  for (int64_t lane = 0; lane < lanes; ++lane)
    sums[channel + lane] = static_cast<float>(lane_sums[lane]);
}

/// The weight and its gradient are fp32, in the order that the convolution would keep them in.
class CpuDeconvolution final : public PackedWeightLayer {
 public:
  CpuDeconvolution(const LayerRequest& request, CpuDevice& device, DataType type)
      : PackedWeightLayer(request, device),
        deconvolution_(static_cast<const Deconvolution&>(request.definition)),
        onednn_(deconvolution_.convolution, std::nullopt, device.engine()),
        parts_(choose_parts(device, deconvolution_.convolution, onednn_,
                            {.type = type, .layout = request.choice.layout})) {
    choice_ = {layout_name(parts_.formats.out), direct(request.choice.forward), "", ""};
    forward_ = make_direct_backward_data(parts_);
    if (request.training) {
      choice_.backward_weights = direct(request.choice.backward_weights);
      backward_weights_ = make_direct_backward_weights(parts_);
      if (request.input_needs_gradient[0]) {
        choice_.backward_data = direct(request.choice.backward_data);
        backward_data_ = make_direct_forward(parts_);
      }
    }
    set_needs();
    order_ = WeightOrder(device_, onednn_.weight_shape(), onednn_.canonical_weight(),
                         parts_.kept_weight);
    if (!forward_->is_fast())
      warning_ = text("[deconvolution '", name_,
                      "'] only slow reference code exists for this geometry on this CPU");
  }

  /// Whether none of the passes is by the library's slow reference code.
  bool is_fast() const {
    return std::ranges::all_of(std::array{&forward_, &backward_data_, &backward_weights_},
                               [](const auto* pass) { return !*pass || (*pass)->is_fast(); });
  }

  std::vector<Choice> alternatives() const override {
    if (parts_.formats.out == Layout::kChannelsLast) return {};
    Choice other = choice_;
    other.layout = layout_name(Layout::kChannelsLast);
    return {other};
  }

  void forward(const StepContext&, const Bindings& memory) override {
    Bindings turned = memory;
    turned.input_gradients = {memory.output};
    forward_->run(turned, memory.inputs[0]);
    if (!deconvolution_.bias) return;
    with_element_of(memory.output.format.type, [&](auto element) {
      add_to_channels(memory.parameters[1].value, memory.output.as<decltype(element)>(),
                      memory.output.blocking());
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& gradient = combined_gradient(memory, std::nullopt);
    if (deconvolution_.bias) sum_bias_gradient(gradient, memory.parameters[1].gradient);
    Bindings turned = memory;
    turned.inputs = {gradient};
    backward_weights_->run(turned, memory.inputs[0]);
    if (!memory.input_gradients[0]) return;
    turned.output = memory.input_gradients[0];
    backward_data_->run(turned, {});
  }

 private:
  /// The one algorithm that there is.
  std::string direct(const std::string& asked) const {
    constexpr const char* kOnly = "direct";
    if (!asked.empty() && asked != kOnly)
      throw ConfigError(text("[deconvolution '", name_, "'] the algorithm \"", asked,
                             "\" is chosen, a CPU has only \"", kOnly, "\""));
    return kOnly;
  }

  void set_needs() {
    needs_.input_formats = {{parts_.formats.out, parts_.formats.type}};
    needs_.output_format = {parts_.formats.in, parts_.formats.type};
    needs_.backward_reads_inputs = true;
    for (const auto* pass : {&forward_, &backward_data_, &backward_weights_})
      if (*pass) needs_.scratch_bytes = std::max(needs_.scratch_bytes, (*pass)->scratch_bytes());
  }

  static void sum_bias_gradient(const Tensor& gradient, float* sums) {
    const Blocking b = gradient.blocking();
    const int64_t each = std::min(kLanesOfSum, b.block);
    const int64_t groups = (b.block + each - 1) / each;
    with_element_of(gradient.format.type, [&](auto element) {
      const auto* y = gradient.as<decltype(element)>();
#pragma omp parallel for collapse(2) schedule(static)
      for (int64_t block = 0; block < b.blocks; ++block)
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t channel = block * b.block + group * each;
          if (channel < b.channels) sum_channels(y, b, channel, sums);
        }
    });
  }

  const Deconvolution& deconvolution_;
  OnednnConvolution onednn_;
  ConvolutionParts parts_;
  /// Of the convolution: its backward data, forward and backward weights.
  std::unique_ptr<ConvolutionPass> forward_, backward_data_, backward_weights_;
};

}  // namespace

std::unique_ptr<Layer> make_deconvolution(const LayerRequest& request, CpuDevice& device) {
  return make_for_activations<CpuDeconvolution>(request, device);
}

}  // namespace poseidon::layers::cpu
