#include "layers/convolution.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/cpu/instruction_set.h"
#include "core/cpu/onednn.h"
#include "core/error.h"
#include "layers/cpu/bf16_emulation.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/weight_order.h"
#include "layers/cpu/winograd.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using BackwardDataDesc = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeightsDesc = dnnl::convolution_backward_weights::primitive_desc;

/// The geometry in oneDNN's terms.
struct Geometry {
  Dims weight, bias, stride, dilation, padding_left, padding_right;

  explicit Geometry(const Convolution& c)
      : bias{c.outputs},
        stride{c.stride[0], c.stride[1]},
        dilation{c.dilation[0] - 1, c.dilation[1] - 1},
        padding_left{c.padding[0], c.padding[1]},
        padding_right(2) {
    const int64_t inputs = c.input.channels() / c.groups, outputs = c.outputs / c.groups;
    weight = {outputs, inputs, c.kernel[0], c.kernel[1]};
    if (c.groups > 1) weight.insert(weight.begin(), c.groups);
    for (size_t i = 0; i < 2; ++i) {
      const int axis = static_cast<int>(i) + 2;
      const int64_t window = c.dilation[i] * (c.kernel[i] - 1) + 1;
      padding_right[i] =
          (c.output[axis] - 1) * stride[i] + window - c.input[axis] - padding_left[i];
    }
  }
};

FormatTag canonical_tag(const Geometry& geometry) {
  return geometry.weight.size() == 5 ? FormatTag::goihw : FormatTag::oihw;
}

/// Asks for the three passes of one convolution. An implementation that does not exist is nullopt.
class Asker {
 public:
  Asker(const Convolution& convolution, const Geometry& geometry, std::optional<float> relu,
        DataType type, dnnl::engine& engine)
      : convolution_(convolution), geometry_(geometry), relu_(relu), type_(type), engine_(engine) {}

  std::optional<ForwardDesc> forward(Layout in, Layout out, const MemoryDesc& weight,
                                     bool training) const {
    dnnl::primitive_attr attributes = user_scratchpad();
    if (relu_) attributes.set_post_ops(relu_post_op(*relu_));
    return attempt([&] {
      const auto kind =
          training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
      const auto& g = geometry_;
      if (!convolution_.bias)
        return describe_forward<dnnl::convolution_forward>(
            engine_, attributes, kind, kDirect, source(in), weight, target(out), g.stride,
            g.dilation, g.padding_left, g.padding_right);
      return describe_forward<dnnl::convolution_forward>(
          engine_, attributes, kind, kDirect, source(in), weight, bias(), target(out), g.stride,
          g.dilation, g.padding_left, g.padding_right);
    });
  }

  std::optional<BackwardDataDesc> backward_data(Layout in, Layout out, const MemoryDesc& weight,
                                                const ForwardDesc& hint) const {
    const auto& g = geometry_;
    return attempt([&] {
      return describe_backward<dnnl::convolution_backward_data>(
          engine_, user_scratchpad(), hint, kDirect, source(in), weight, target(out), g.stride,
          g.dilation, g.padding_left, g.padding_right);
    });
  }

  std::optional<BackwardWeightsDesc> backward_weights(Layout in, Layout out,
                                                      const MemoryDesc& weight,
                                                      const ForwardDesc& hint) const {
    const auto& g = geometry_;
    return attempt([&] {
      if (!convolution_.bias)
        return describe_backward<dnnl::convolution_backward_weights>(
            engine_, user_scratchpad(), hint, kDirect, source(in), weight, target(out), g.stride,
            g.dilation, g.padding_left, g.padding_right);
      return describe_backward<dnnl::convolution_backward_weights>(
          engine_, user_scratchpad(), hint, kDirect, source(in), weight, bias(), target(out),
          g.stride, g.dilation, g.padding_left, g.padding_right);
    });
  }

  MemoryDesc any_weight() const { return {geometry_.weight, onednn_type(type_), FormatTag::any}; }

 private:
  template <class Make>
  static auto attempt(const Make& make) -> std::optional<decltype(make())> {
    try {
      return make();
    } catch (const dnnl::error&) {
      return std::nullopt;
    }
  }

  MemoryDesc source(Layout layout) const {
    return activation_desc(convolution_.input, {layout, type_});
  }
  MemoryDesc target(Layout layout) const {
    return activation_desc(convolution_.output, {layout, type_});
  }
  MemoryDesc bias() const { return {geometry_.bias, kFloat, FormatTag::x}; }

  const Convolution& convolution_;
  const Geometry& geometry_;
  std::optional<float> relu_;
  DataType type_;
  dnnl::engine& engine_;
};

/// Whether Winograd's method can do this, given the blocked layout on both sides.
bool winograd_is_legal(const Convolution& c) {
  constexpr std::array<int64_t, 2> kOne{1, 1};
  const int64_t kernel = c.kernel[0];
  return (kernel == 3 || kernel == 5) && c.kernel[1] == kernel && c.stride == kOne &&
         c.dilation == kOne && std::max(c.padding[0], c.padding[1]) < kernel &&
         c.input.channels() / c.groups % WinogradGeometry::lanes() == 0 &&
         c.outputs / c.groups % WinogradGeometry::lanes() == 0;
}

/// The fixed rule. Winograd's method does 2.8 (kernels of 5) to 4 times (of 3) fewer multiply-adds
/// but moves the transformed weight and tiles through memory, so it wants enough tiles to use each
/// transformed weight for. Measured against oneDNN's direct ones, all three passes, on Zen 4: 1.4
/// times as fast with 32 tiles of 16 or of 512 channels; of 512 channels level with 16 tiles, 0.7
/// times with 8; at most 2.8 times (128 channels at 28 x 28).
///
/// The direct method has instructions for bf16, which Winograd's does not use, and then is twice as
/// fast. On Zen 5, all three passes, Winograd's method took of its time: kernels of 5, 32 channels
/// with 6,400 tiles 1.36; of 3, 256 channels with 128 tiles 0.95, 512 channels with 32 tiles 1.36.
bool winograd_pays(const WinogradGeometry& geometry, DataType type) {
  if (type == DataType::kBf16) return geometry.kernel == 3 && geometry.tiles() >= 96;
  return geometry.tiles() >= 32;
}

/// `type` is that of the activations and of the products' factors. The weight and its gradient are
/// fp32, in the order that the forward pass has with fp32.
class CpuConvolution final : public PackedWeightLayer {
 public:
  CpuConvolution(const LayerRequest& request, CpuDevice& device, DataType type)
      : PackedWeightLayer(request, device),
        convolution_(static_cast<const Convolution&>(request.definition)),
        geometry_(convolution_),
        relu_(request.relu),
        type_(type) {
    const Asker asker(convolution_, geometry_, relu_, type, device.engine());
    choose_layout(request, asker);
    choose_forward(request);
    if (request.training) {
      choose_backward_weights(request, asker);
      if (request.input_needs_gradient[0]) choose_backward_data(request, asker);
    }
    set_needs(request);
    order_ = WeightOrder(device_, geometry_.weight, canonical_tag(geometry_), weight_);
  }

  /// Whether none of the passes is by the library's slow reference code.
  bool is_fast() const {
    return warning_.empty() &&
           (!backward_weights_desc_ || !is_reference(*backward_weights_desc_)) &&
           (!backward_data_desc_ || !is_reference(*backward_data_desc_));
  }

  std::vector<Choice> alternatives() const override {
    std::vector<Choice> others;
    if (winograd_is_legal(convolution_) && layouts_suit_winograd()) {
      for (std::string Choice::*pass :
           {&Choice::forward, &Choice::backward_data, &Choice::backward_weights}) {
        if ((choice_.*pass).empty()) continue;
        others.push_back(choice_);
        others.back().*pass = choice_.*pass == "direct" ? "winograd" : "direct";
      }
    }
    if (out_ != Layout::kChannelsLast) {
      others.push_back(choice_);
      others.back().layout = layout_name(Layout::kChannelsLast);
    }
    return others;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float* bias = convolution_.bias ? memory.parameters[1].value : nullptr;
    if (forward_winograd_)
      return forward_winograd_->forward(memory.inputs[0].data, memory.parameters[0].value,
                                        {.bias = bias, .relu = relu_}, memory.output.data,
                                        memory.scratch);
    Scratch scratch(memory.scratch);
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, forward_desc_->src_desc(), memory.inputs[0].data);
    arguments.add(DNNL_ARG_WEIGHTS, forward_weight_.order(),
                  forward_weight_.get(device_, memory.parameters[0].value, scratch));
    if (convolution_.bias)
      arguments.add(DNNL_ARG_BIAS, forward_desc_->bias_desc(), memory.parameters[1].value);
    arguments.add(DNNL_ARG_DST, forward_desc_->dst_desc(), memory.output.data);
    arguments.run(forward_, forward_desc_->scratchpad_desc(), scratch);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& gradient = combined_gradient(memory, relu_);
    run_backward_weights(memory, gradient);
    if (memory.input_gradients[0]) run_backward_data(memory, gradient);
  }

 private:
  /// Blocked where the library has a real implementation; a layer that reads an image takes it
  /// plain.
  void choose_layout(const LayerRequest& request, const Asker& asker) {
    const Layout blocked = device_.blocked_layout();
    struct Candidate {
      Layout in, out;
    };
    std::vector<Candidate> candidates;
    if (request.choice.layout == layout_name(Layout::kChannelsLast))
      candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast});
    if (convolution_.input.channels() <= 4) candidates.push_back({Layout::kPlain, blocked});
    candidates.push_back({blocked, blocked});
    candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast});
    candidates.push_back({Layout::kPlain, Layout::kPlain});
    for (const Candidate& candidate : candidates) {
      auto description =
          asker.forward(candidate.in, candidate.out, asker.any_weight(), request.training);
      if (!description || is_reference(*description)) continue;
      in_ = candidate.in;
      out_ = candidate.out;
      forward_desc_ = std::move(description);
      choice_.layout = layout_name(out_);
      choose_weight(request);
      return;
    }
    in_ = out_ = Layout::kPlain;
    forward_desc_ = asker.forward(in_, out_, asker.any_weight(), request.training);
    if (!forward_desc_)
      throw LogicError(text("[convolution '", name_, "'] oneDNN has no implementation at all"));
    choice_.layout = layout_name(out_);
    choose_weight(request);
    warning_ = text("[convolution '", name_,
                    "'] only slow reference code exists for this geometry on this CPU");
  }

  void choose_weight(const LayerRequest& request) {
    weight_ = forward_desc_->weights_desc();
    if (type_ != DataType::kFp32) {
      const Asker fp32(convolution_, geometry_, relu_, DataType::kFp32, device_.engine());
      weight_ = fp32.forward(in_, out_, fp32.any_weight(), request.training)->weights_desc();
    }
    forward_weight_ = PassWeight(device_, geometry_.weight, weight_, forward_desc_->weights_desc());
  }

  void choose_forward(const LayerRequest& request) {
    choice_.forward = "direct";
    if (wants_winograd(request.choice.forward)) {
      forward_winograd_ = Winograd::make(winograd_geometry(), type_, device_.threads());
      choice_.forward = "winograd";
      return;
    }
    forward_ = dnnl::convolution_forward(*forward_desc_);
  }

  void choose_backward_weights(const LayerRequest& request, const Asker& asker) {
    choice_.backward_weights = "direct";
    if (wants_winograd(request.choice.backward_weights)) {
      weights_winograd_ = Winograd::make(winograd_geometry(), type_, device_.threads());
      choice_.backward_weights = "winograd";
      return;
    }
    backward_weights_desc_ = asker.backward_weights(in_, out_, weight_, *forward_desc_);
    if (!backward_weights_desc_ || is_reference(*backward_weights_desc_))
      backward_weights_desc_ = asker.backward_weights(
          in_, out_, {geometry_.weight, kFloat, FormatTag::any}, *forward_desc_);
    check(backward_weights_desc_.has_value(),
          "oneDNN gives every convolution a backward-weights pass");
    backward_weights_ = dnnl::convolution_backward_weights(*backward_weights_desc_);
    from_gradient_order_ =
        PreparedReorder(device_, backward_weights_desc_->diff_weights_desc(), weight_);
  }

  void choose_backward_data(const LayerRequest& request, const Asker& asker) {
    choice_.backward_data = "direct";
    if (wants_winograd(request.choice.backward_data)) {
      data_winograd_ =
          Winograd::make(winograd_geometry().of_backward_data(), type_, device_.threads());
      choice_.backward_data = "winograd";
      backward_weight_ = PassWeight(device_, geometry_.weight, weight_,
                                    {geometry_.weight, kFloat, winograd_orders().backward});
    } else {
      backward_data_desc_ = asker.backward_data(in_, out_, asker.any_weight(), *forward_desc_);
      check(backward_data_desc_.has_value(), "oneDNN gives every convolution a backward-data pass");
      backward_data_ = dnnl::convolution_backward_data(*backward_data_desc_);
      backward_weight_ =
          PassWeight(device_, geometry_.weight, weight_, backward_data_desc_->weights_desc());
    }
  }

  WinogradGeometry winograd_geometry() const {
    return {.kernel = convolution_.kernel[0],
            .padding = convolution_.padding,
            .groups = convolution_.groups,
            .input = convolution_.input,
            .output = convolution_.output};
  }

  bool wants_winograd(const std::string& asked) const {
    if (!winograd_is_legal(convolution_) || !layouts_suit_winograd()) return false;
    return asked.empty() ? winograd_pays(winograd_geometry(), type_) : asked == "winograd";
  }

  bool layouts_suit_winograd() const {
    const Layout blocked = device_.blocked_layout();
    const bool is_that_of_winograd =
        (blocked == Layout::kBlocked16) == (WinogradGeometry::lanes() == 16);
    return is_that_of_winograd && in_ == blocked && out_ == blocked &&
           weight_ == MemoryDesc(geometry_.weight, kFloat, winograd_orders().forward);
  }

  /// The weight's orders that Winograd's method reads.
  struct WinogradOrders {
    FormatTag forward, backward;
  };
  WinogradOrders winograd_orders() const {
    const bool groups = convolution_.groups > 1;
    if (WinogradGeometry::lanes() == 16)
      return groups ? WinogradOrders{FormatTag::gOIhw16i16o, FormatTag::gOIhw16o16i}
                    : WinogradOrders{FormatTag::OIhw16i16o, FormatTag::OIhw16o16i};
    return groups ? WinogradOrders{FormatTag::gOIhw8i8o, FormatTag::gOIhw8o8i}
                  : WinogradOrders{FormatTag::OIhw8i8o, FormatTag::OIhw8o8i};
  }

  void set_needs(const LayerRequest& request) {
    needs_.input_formats = {{in_, type_}};
    needs_.output_format = {out_, type_};
    needs_.backward_reads_inputs = true;
    needs_.backward_reads_output = relu_.has_value();
    needs_.scratch_bytes = forward_scratch_bytes();
    if (!request.training) return;
    needs_.scratch_bytes = std::max(needs_.scratch_bytes, backward_weights_scratch_bytes());
    if (request.input_needs_gradient[0])
      needs_.scratch_bytes = std::max(needs_.scratch_bytes, backward_data_scratch_bytes());
  }

  size_t forward_scratch_bytes() const {
    return forward_winograd_ ? forward_winograd_->forward_scratch_bytes()
                             : forward_weight_.scratch_bytes() +
                                   Scratch::rounded(forward_desc_->scratchpad_desc().get_size());
  }

  size_t backward_weights_scratch_bytes() const {
    if (weights_winograd_) return weights_winograd_->backward_weights_scratch_bytes();
    const auto& weights = *backward_weights_desc_;
    size_t bytes = Scratch::rounded(weights.scratchpad_desc().get_size());
    if (weights.diff_weights_desc() != weight_)
      bytes += Scratch::rounded(weights.diff_weights_desc().get_size());
    return bytes;
  }

  size_t backward_data_scratch_bytes() const {
    const size_t weight = backward_weight_.scratch_bytes();
    if (data_winograd_) return weight + data_winograd_->forward_scratch_bytes();
    return weight + Scratch::rounded(backward_data_desc_->scratchpad_desc().get_size());
  }

  void run_backward_weights(const Bindings& memory, const Tensor& gradient) {
    if (weights_winograd_)
      return weights_winograd_->backward_weights(
          memory.inputs[0].data, gradient.data, memory.parameters[0].gradient,
          convolution_.bias ? memory.parameters[1].gradient : nullptr, memory.scratch);
    const auto& description = *backward_weights_desc_;
    Scratch scratch(memory.scratch);
    float* weight_gradient = memory.parameters[0].gradient;
    const bool other_order = description.diff_weights_desc() != weight_;
    if (other_order) weight_gradient = scratch.take(description.diff_weights_desc().get_size());
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, description.src_desc(), memory.inputs[0].data);
    arguments.add(DNNL_ARG_DIFF_DST, description.diff_dst_desc(), gradient.data);
    arguments.add(DNNL_ARG_DIFF_WEIGHTS, description.diff_weights_desc(), weight_gradient);
    if (convolution_.bias)
      arguments.add(DNNL_ARG_DIFF_BIAS, description.diff_bias_desc(),
                    memory.parameters[1].gradient);
    arguments.run(backward_weights_, description.scratchpad_desc(), scratch);
    if (other_order)
      from_gradient_order_.run(device_, weight_gradient, memory.parameters[0].gradient);
  }

  void run_backward_data(const Bindings& memory, const Tensor& gradient) {
    Scratch scratch(memory.scratch);
    void* weight = backward_weight_.get(device_, memory.parameters[0].value, scratch);
    const Tensor& target = memory.input_gradients[0];
    if (data_winograd_)
      return data_winograd_->forward(gradient.data, static_cast<const float*>(weight),
                                     {.turned = true}, target.data, scratch.rest());
    const auto& description = *backward_data_desc_;
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_DIFF_DST, description.diff_dst_desc(), gradient.data);
    arguments.add(DNNL_ARG_WEIGHTS, backward_weight_.order(), weight);
    arguments.add(DNNL_ARG_DIFF_SRC, description.diff_src_desc(), target.data);
    arguments.run(backward_data_, description.scratchpad_desc(), scratch);
  }

  const Convolution& convolution_;
  Geometry geometry_;
  std::optional<float> relu_;
  Layout in_ = Layout::kPlain, out_ = Layout::kPlain;
  DataType type_;
  MemoryDesc weight_;  ///< the order the weight is kept in
  PassWeight forward_weight_, backward_weight_;

  std::optional<ForwardDesc> forward_desc_;
  std::optional<BackwardDataDesc> backward_data_desc_;
  std::optional<BackwardWeightsDesc> backward_weights_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_data backward_data_;
  dnnl::convolution_backward_weights backward_weights_;
  PreparedReorder from_gradient_order_;
  /// In their place, where the choice is Winograd's method.
  std::unique_ptr<Winograd> forward_winograd_, data_winograd_, weights_winograd_;
};

}  // namespace

std::unique_ptr<Layer> make_convolution(const LayerRequest& request, CpuDevice& device) {
  if (device.activations() == DataType::kBf16) {
    if (has_bf16_products()) {
      auto layer = std::make_unique<CpuConvolution>(request, device, DataType::kBf16);
      if (layer->is_fast()) return layer;
    }
    LayerRequest inner = request;
    for (Format& format : inner.input_formats) format.type = DataType::kFp32;
    return make_bf16_emulation(request,
                               std::make_unique<CpuConvolution>(inner, device, DataType::kFp32));
  }
  return std::make_unique<CpuConvolution>(request, device, DataType::kFp32);
}

}  // namespace poseidon::layers::cpu
