#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/padding_taps.h"
#include "layers/cpu/pass_weight.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// Whether oneDNN 2.6 may read beyond the input. Its 1 x 1 code and its AMX code may do so if two
/// conditions hold: the padding of opposite sides differs, and a complete window fits in the
/// padding of one side.
bool is_unsafe(const ConvolutionParts& parts) {
  const Convolution& c = parts.convolution;
  const auto fits_window = [&](size_t axis) {
    return std::max(c.padding.before[axis], c.padding.after[axis]) >= c.window(axis);
  };
  return c.padding.before != c.padding.after && (fits_window(0) || fits_window(1));
}

/// Whether oneDNN 2.6 may compute wrong results. On several threads, the results of its AMX code
/// are sometimes wrong if a stride is longer than the window. In some geometries, they are wrong
/// with a stride of 4. So this function returns true for AMX code if a stride is longer than the
/// window, or 3 or more. It returns false for 1 x 1 kernels, for which oneDNN has other code.
template <class Description>
bool may_be_wrong(const Convolution& c, const Description& description) {
  constexpr int64_t kLong = 3;
  const auto is_long = [&](size_t axis) {
    return c.stride[axis] > c.window(axis) || c.stride[axis] >= kLong;
  };
  const std::string_view name = description.impl_info_str();
  return name.find("amx") != std::string_view::npos && c.kernel[0] * c.kernel[1] > 1 &&
         (is_long(0) || is_long(1));
}

class DirectForward final : public ConvolutionPass {
 public:
  explicit DirectForward(const ConvolutionParts& parts)
      : device_(parts.device),
        bias_(parts.convolution.bias),
        is_safe_(!is_unsafe(parts) && !may_be_wrong(parts.convolution, parts.forward)),
        description_(parts.forward),
        primitive_(description_),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                description_.weights_desc()) {}

  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + Scratch::rounded(description_.scratchpad_desc().get_size());
  }
  std::string implementation() const override { return implementation_name(description_); }
  bool is_fast() const override { return is_safe_ && !is_reference(description_); }

  void run(const Bindings& memory, const Tensor&) override {
    Scratch scratch(memory.scratch);
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, description_.src_desc(), memory.inputs[0].data);
    arguments.add(DNNL_ARG_WEIGHTS, weight_.order(),
                  weight_.get(device_, memory.parameters[0].value, scratch));
    if (bias_) arguments.add(DNNL_ARG_BIAS, description_.bias_desc(), memory.parameters[1].value);
    arguments.add(DNNL_ARG_DST, description_.dst_desc(), memory.output.data);
    arguments.run(primitive_, description_.scratchpad_desc(), scratch);
  }

 private:
  CpuDevice& device_;
  bool bias_, is_safe_;
  OnednnConvolution::Forward description_;
  dnnl::convolution_forward primitive_;
  PassWeight weight_;
};

class DirectBackwardData final : public ConvolutionPass {
 public:
  DirectBackwardData(const ConvolutionParts& parts,
                     const OnednnConvolution::BackwardData& description)
      : device_(parts.device),
        is_safe_(!is_unsafe(parts) && !may_be_wrong(parts.convolution, description)),
        description_(description),
        primitive_(description_),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                description_.weights_desc()) {}

  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + Scratch::rounded(description_.scratchpad_desc().get_size());
  }
  std::string implementation() const override { return implementation_name(description_); }
  bool is_fast() const override { return is_safe_ && !is_reference(description_); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_WEIGHTS, weight_.order(),
                  weight_.get(device_, memory.parameters[0].value, scratch));
    arguments.add(DNNL_ARG_DIFF_DST, description_.diff_dst_desc(), gradient.data);
    arguments.add(DNNL_ARG_DIFF_SRC, description_.diff_src_desc(), memory.input_gradients[0].data);
    arguments.run(primitive_, description_.scratchpad_desc(), scratch);
  }

 private:
  CpuDevice& device_;
  bool is_safe_;
  OnednnConvolution::BackwardData description_;
  dnnl::convolution_backward_data primitive_;
  PassWeight weight_;
};

/// oneDNN computes the gradient in the weight's order or in another order. In the latter case, the
/// pass then copies the gradient to the weight's order.
class DirectBackwardWeights final : public ConvolutionPass {
 public:
  DirectBackwardWeights(const ConvolutionParts& parts,
                        const OnednnConvolution::BackwardWeights& description)
      : device_(parts.device),
        bias_(parts.convolution.bias),
        is_safe_(!is_unsafe(parts)),
        description_(description),
        primitive_(description_),
        in_order_(description_.diff_weights_desc() == parts.kept_weight),
        to_kept_order_(parts.device, description_.diff_weights_desc(), parts.kept_weight),
        padding_taps_(parts.device, parts.convolution, parts.onednn, parts.kept_weight) {}

  size_t scratch_bytes() const override {
    const size_t gradient =
        in_order_ ? 0 : Scratch::rounded(description_.diff_weights_desc().get_size());
    return gradient + Scratch::rounded(description_.scratchpad_desc().get_size());
  }
  std::string implementation() const override { return implementation_name(description_); }
  bool is_fast() const override { return is_safe_ && !is_reference(description_); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    float* weight = in_order_ ? memory.parameters[0].gradient
                              : scratch.allocate(description_.diff_weights_desc().get_size());
    Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, description_.src_desc(), memory.inputs[0].data);
    arguments.add(DNNL_ARG_DIFF_DST, description_.diff_dst_desc(), gradient.data);
    arguments.add(DNNL_ARG_DIFF_WEIGHTS, description_.diff_weights_desc(), weight);
    if (bias_)
      arguments.add(DNNL_ARG_DIFF_BIAS, description_.diff_bias_desc(),
                    memory.parameters[1].gradient);
    arguments.run(primitive_, description_.scratchpad_desc(), scratch);
    if (!in_order_) to_kept_order_.run(device_, weight, memory.parameters[0].gradient);
    padding_taps_.zero(memory.parameters[0].gradient);
  }

 private:
  CpuDevice& device_;
  bool bias_, is_safe_;
  OnednnConvolution::BackwardWeights description_;
  dnnl::convolution_backward_weights primitive_;
  bool in_order_;
  PreparedReorder to_kept_order_;
  PaddingTaps padding_taps_;
};

/// Whether oneDNN has an implementation that is not slow reference code.
template <class Description>
bool is_real(const std::optional<Description>& description) {
  return description && !is_reference(*description);
}

/// Whether to use Poseidon's own depthwise code: it is legal, and oneDNN has no optimized code. If
/// oneDNN has optimized code, as for most 3 x 3 kernels, oneDNN is 1.1 to 1.3 times as fast on
/// Zen 4.
template <class Description>
bool is_own_depthwise(const ConvolutionParts& parts,
                      const std::optional<Description>& description) {
  return !is_real(description) &&
         depthwise_is_legal(parts.device, parts.convolution, parts.formats);
}

/// Whether to use products of patches: they are legal, and oneDNN has no optimized code or its code
/// is unsafe.
template <class Description>
bool product_is_better(const ConvolutionParts& parts,
                       const std::optional<Description>& description) {
  return (!is_real(description) || is_unsafe(parts)) && product_is_legal(parts);
}

}  // namespace

std::unique_ptr<ConvolutionPass> make_direct_forward(const ConvolutionParts& parts) {
  const std::optional description = parts.forward;
  if (is_own_depthwise(parts, description)) return make_depthwise_forward(parts);
  if (product_is_better(parts, description)) return nullptr;
  return std::make_unique<DirectForward>(parts);
}

std::unique_ptr<ConvolutionPass> make_direct_backward_data(const ConvolutionParts& parts) {
  const auto description = parts.onednn.backward_data(
      parts.formats, parts.onednn.any_weight_of(parts.formats.type), parts.forward);
  if (is_own_depthwise(parts, description)) return make_depthwise_backward_data(parts);
  if (product_is_better(parts, description)) return nullptr;
  check(description.has_value(), "oneDNN has a backward-data pass for every convolution");
  return std::make_unique<DirectBackwardData>(parts, *description);
}

std::unique_ptr<ConvolutionPass> make_direct_backward_weights(const ConvolutionParts& parts) {
  if (pointwise_is_legal(parts)) return make_pointwise_backward_weights(parts);
  auto description = parts.onednn.backward_weights(parts.formats, parts.kept_weight, parts.forward);
  if (!is_real(description))
    description = parts.onednn.backward_weights(
        parts.formats, parts.onednn.any_weight_of(DataType::kFp32), parts.forward);
  if (is_own_depthwise(parts, description)) return make_depthwise_backward_weights(parts);
  if (product_is_better(parts, description)) return nullptr;
  check(description.has_value(), "oneDNN has a backward-weights pass for every convolution");
  return std::make_unique<DirectBackwardWeights>(parts, *description);
}

}  // namespace poseidon::layers::cpu
