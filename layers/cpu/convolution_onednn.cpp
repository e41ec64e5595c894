#include "layers/cpu/convolution_onednn.h"

#include "layers/cpu/one_thread.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

template <class Make>
auto attempt(const Make& make) -> std::optional<decltype(make())> {
  const OneThread one_thread;
  try {
    return make();
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

}  // namespace

OnednnConvolution::OnednnConvolution(const Convolution& c, std::optional<float> relu,
                                     dnnl::engine& engine)
    : input_(c.input),
      output_(c.output),
      bias_(c.bias),
      relu_(relu),
      engine_(engine),
      weight_{c.outputs / c.groups, c.input.channels() / c.groups, c.kernel[0], c.kernel[1]},
      stride_{c.stride[0], c.stride[1]},
      dilation_{c.dilation[0] - 1, c.dilation[1] - 1},
      padding_left_{c.padding.before[0], c.padding.before[1]},
      padding_right_(2) {
  if (c.groups > 1) weight_.insert(weight_.begin(), c.groups);
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t window = c.dilation[i] * (c.kernel[i] - 1) + 1;
    padding_right_[i] =
        (c.output[axis] - 1) * stride_[i] + window - c.input[axis] - padding_left_[i];
  }
}

OnednnConvolution OnednnConvolution::of(int64_t samples, int64_t inputs, int64_t outputs) const {
  OnednnConvolution other = *this;
  other.input_ = {samples, inputs, input_.height(), input_.width()};
  other.output_ = {samples, outputs, output_.height(), output_.width()};
  if (weight_.size() == 4) {
    other.weight_[0] = outputs;
    other.weight_[1] = inputs;
  }
  return other;
}

std::optional<OnednnConvolution::Forward> OnednnConvolution::forward(
    const ConvolutionFormats& formats, const MemoryDesc& weight, bool training) const {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (relu_) attributes.set_post_ops(relu_post_op(*relu_));
  const auto kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return attempt([&] {
    if (!bias_)
      return describe_forward<dnnl::convolution_forward>(
          engine_, attributes, kind, kAlgorithm, source(formats), weight, target(formats), stride_,
          dilation_, padding_left_, padding_right_);
    return describe_forward<dnnl::convolution_forward>(
        engine_, attributes, kind, kAlgorithm, source(formats), weight, bias(), target(formats),
        stride_, dilation_, padding_left_, padding_right_);
  });
}

std::optional<OnednnConvolution::BackwardData> OnednnConvolution::backward_data(
    const ConvolutionFormats& formats, const MemoryDesc& weight, const Forward& hint) const {
  return attempt([&] {
    return describe_backward<dnnl::convolution_backward_data>(
        engine_, user_scratchpad(), hint, kAlgorithm, source(formats), weight, target(formats),
        stride_, dilation_, padding_left_, padding_right_);
  });
}

std::optional<OnednnConvolution::BackwardWeights> OnednnConvolution::backward_weights(
    const ConvolutionFormats& formats, const MemoryDesc& weight, const Forward& hint) const {
  return attempt([&] {
    if (!bias_)
      return describe_backward<dnnl::convolution_backward_weights>(
          engine_, user_scratchpad(), hint, kAlgorithm, source(formats), weight, target(formats),
          stride_, dilation_, padding_left_, padding_right_);
    return describe_backward<dnnl::convolution_backward_weights>(
        engine_, user_scratchpad(), hint, kAlgorithm, source(formats), weight, bias(),
        target(formats), stride_, dilation_, padding_left_, padding_right_);
  });
}

MemoryDesc OnednnConvolution::canonical_weight() const {
  return {weight_, kFloat, weight_.size() == 5 ? FormatTag::goihw : FormatTag::oihw};
}

MemoryDesc OnednnConvolution::any_weight_of(DataType type) const {
  return {weight_, onednn_type(type), FormatTag::any};
}

MemoryDesc OnednnConvolution::source(const ConvolutionFormats& formats) const {
  return activation_desc(input_, {formats.in, formats.type});
}

MemoryDesc OnednnConvolution::target(const ConvolutionFormats& formats) const {
  return activation_desc(output_, {formats.out, formats.type});
}

MemoryDesc OnednnConvolution::bias() const { return {{output_.channels()}, kFloat, FormatTag::x}; }

}  // namespace poseidon::layers::cpu
