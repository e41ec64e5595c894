#include <algorithm>

#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/isa.h"
#include "layers/cpu/convolution_direct.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

/// The size of the portions of a pass that computes `channels` channels of a tensor. If there are
/// few samples, a portion has some channels of one sample. Only blocked layouts allow this, because
/// oneDNN writes only dense tensors. Each portion reads the weight, so a portion should not
/// have too few output cells. The size may depend on the number of threads, because oneDNN computes
/// each element alike in portions of any size.
Portion portion_for_threads(const ConvolutionParts& parts, int64_t channels, Layout layout) {
  constexpr int64_t kPortionsOfThread = 4, kLeastChannels = 32, kLeastCells = 256;
  const int64_t samples = parts.convolution.input.samples(), threads = parts.device.threads();
  const int64_t wanted = threads * kPortionsOfThread;
  if (threads == 1) return {.samples = samples, .channels = channels};
  const bool blocked = layout == Layout::kBlocked8 || layout == Layout::kBlocked16;
  const bool divides_channels = blocked && samples < threads && parts.convolution.groups == 1 &&
                                channels % kLanesOfBlock == 0;
  if (!divides_channels) {
    const int64_t least = divide_up(kLeastCells, parts.convolution.output.area());
    return {.samples =
                std::min(std::max(divide_up(samples, wanted), least), divide_up(samples, threads)),
            .channels = channels};
  }
  const int64_t each = divide_up(channels, divide_up(wanted, samples));
  return {.samples = 1,
          .channels = std::min(
              channels, divide_up(std::max(each, kLeastChannels), kLanesOfBlock) * kLanesOfBlock)};
}

/// The address of a portion's channels in a tensor of `channels` channels. `description` describes
/// the portion's part of the tensor.
void* channels_of(const Portion& portion, const MemoryDesc& description, int64_t channels,
                  void* tensor) {
  const int64_t size = static_cast<int64_t>(description.get_size()) / portion.samples;
  const int64_t first = portion.sample * channels + portion.channel;
  return static_cast<std::byte*>(tensor) + first * size / portion.channels;
}

/// Whether oneDNN 2.6 may read beyond the input. Its 1 x 1 code and its AMX code may do so if two
/// conditions hold: the padding of opposite sides differs, and a complete window fits in the
/// padding of one side.
bool may_read_beyond(const Convolution& c) {
  const auto fits_window = [&](size_t axis) {
    return std::max(c.padding.before[axis], c.padding.after[axis]) >= c.window(axis);
  };
  return c.padding.before != c.padding.after && (fits_window(0) || fits_window(1));
}

class DirectForward final : public ConvolutionPass {
 public:
  explicit DirectForward(const ConvolutionParts& parts)
      : device_(parts.device),
        bias_(parts.convolution.bias),
        description_(parts.forward),
        primitives_(make_portions<dnnl::convolution_forward>(
            parts, parts.convolution.outputs,
            portion_for_threads(parts, parts.convolution.outputs, parts.formats.out), description_,
            [&](const Portion& portion) { return describe(parts, portion); })),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                description_.weights_desc()) {}

  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + primitives_.scratch_bytes();
  }
  std::string implementation() const override { return implementation_name(description_); }

  void run(const Bindings& memory, const Tensor&) override {
    Scratch scratch(memory.scratch);
    auto* weight =
        static_cast<std::byte*>(weight_.get(device_, memory.parameters[0].value, scratch));
    const int64_t outputs = memory.output.shape.channels();
    const size_t bytes_of_output = weight_.order().get_size() / static_cast<size_t>(outputs);
    primitives_.run(
        scratch, [&](const Portion& portion, const auto& description, Arguments& arguments) {
          const MemoryDesc source = description.src_desc(), target = description.dst_desc();
          arguments.add(DNNL_ARG_SRC, source, first_of(portion, source, memory.inputs[0].data));
          arguments.add(DNNL_ARG_WEIGHTS, description.weights_desc(),
                        weight + static_cast<size_t>(portion.channel) * bytes_of_output);
          if (bias_)
            arguments.add(DNNL_ARG_BIAS, description.bias_desc(),
                          memory.parameters[1].value + portion.channel);
          arguments.add(DNNL_ARG_DST, target,
                        channels_of(portion, target, outputs, memory.output.data));
        });
  }

 private:
  std::optional<OnednnConvolution::Forward> describe(const ConvolutionParts& parts,
                                                     const Portion& portion) const {
    const auto order = order_of_outputs(description_.weights_desc(), portion.channels);
    if (!order) return std::nullopt;
    return parts.onednn.of(portion.samples, parts.convolution.input.channels(), portion.channels)
        .forward(parts.formats, *order, parts.training);
  }

  CpuDevice& device_;
  bool bias_;
  OnednnConvolution::Forward description_;
  PortionPrimitives<dnnl::convolution_forward> primitives_;
  PassWeight weight_;
};

/// If portions have some of the input's channels, each range of channels has a separate copy of its
/// part of the weight.
class DirectBackwardData final : public ConvolutionPass {
 public:
  DirectBackwardData(const ConvolutionParts& parts,
                     const OnednnConvolution::BackwardData& description)
      : device_(parts.device),
        inputs_(parts.convolution.input.channels()),
        description_(description),
        primitives_(make_portions<dnnl::convolution_backward_data>(
            parts, inputs_, portion_for_threads(parts, inputs_, parts.formats.in), description_,
            [&](const Portion& portion) { return describe(parts, portion); })) {
    for (size_t i = 0; i < primitives_.count() && primitives_.portion(i).sample == 0; ++i)
      weights_.push_back(weight_of(parts, primitives_.portion(i), primitives_.description(i)));
  }

  size_t scratch_bytes() const override {
    size_t bytes = primitives_.scratch_bytes();
    for (const PassWeight& weight : weights_) bytes += weight.scratch_bytes();
    return bytes;
  }
  std::string implementation() const override { return implementation_name(description_); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    std::vector<void*> weights;
    for (const PassWeight& weight : weights_)
      weights.push_back(weight.get(device_, memory.parameters[0].value, scratch));
    void* input_gradient = memory.input_gradients[0].data;
    primitives_.run(scratch, [&](const Portion& portion, const auto& description,
                                 Arguments& arguments) {
      const MemoryDesc source = description.diff_dst_desc(), target = description.diff_src_desc();
      const auto range = static_cast<size_t>(portion.channel / primitives_.each().channels);
      arguments.add(DNNL_ARG_WEIGHTS, description.weights_desc(), weights[range]);
      arguments.add(DNNL_ARG_DIFF_DST, source, first_of(portion, source, gradient.data));
      arguments.add(DNNL_ARG_DIFF_SRC, target,
                    channels_of(portion, target, inputs_, input_gradient));
    });
  }

 private:
  std::optional<OnednnConvolution::BackwardData> describe(const ConvolutionParts& parts,
                                                          const Portion& portion) const {
    const OnednnConvolution onednn =
        parts.onednn.of(portion.samples, portion.channels, parts.convolution.outputs);
    const MemoryDesc any = onednn.any_weight_of(parts.formats.type);
    const auto hint = onednn.forward(parts.formats, any, parts.training);
    if (!hint) return std::nullopt;
    return onednn.backward_data(
        parts.formats, portion.channels == inputs_ ? description_.weights_desc() : any, *hint);
  }

  /// The weight of a portion's channels.
  PassWeight weight_of(const ConvolutionParts& parts, const Portion& portion,
                       const OnednnConvolution::BackwardData& description) const {
    const MemoryDesc order = description.weights_desc();
    if (portion.channels == inputs_)
      return {device_, parts.onednn.weight_shape(), parts.kept_weight, order};
    const Dims shape = order.dims();
    return {device_, shape, parts.kept_weight.submemory_desc(shape, {0, portion.channel, 0, 0}),
            order};
  }

  CpuDevice& device_;
  int64_t inputs_;
  OnednnConvolution::BackwardData description_;
  PortionPrimitives<dnnl::convolution_backward_data> primitives_;
  std::vector<PassWeight> weights_;
};

}  // namespace

bool product_is_better(const ConvolutionParts& parts) {
  const Convolution& c = parts.convolution;
  if (may_read_beyond(c)) return true;
  return parts.formats.type == DataType::kBf16 && poseidon::cpu::has_amx_products() &&
         !depthwise_is_legal(parts.device, c, parts.formats);
}

/// With fewer channels in a group, copies of patches take most of the product's time, unless the
/// result is narrow. On Zen 4 with AVX2, the product takes these fractions of gemm's time:
///
///   no groups, kernels from 8 x 8 to 11 x 11             0.13 to 0.59
///   groups of 5 to 7 channels                            0.6 to 1.0
///   17 groups of 1 channel, 2 outputs each (narrow)      0.56
///   3 groups of 3 channels, 13 outputs each              1.3
///   7 groups of 1 channel, 6 outputs each                2.0
bool product_is_faster_than_gemm_forward(const ConvolutionParts& parts) {
  constexpr int64_t kLeastChannels = 4;
  const Convolution& c = parts.convolution;
  if (parts.formats.type != DataType::kFp32 || !has_fused_multiply_add()) return false;
  return c.groups == 1 || c.input.channels() / c.groups >= kLeastChannels ||
         product_forward_is_narrow(parts);
}

bool product_is_faster_than_gemm_weights(const ConvolutionParts& parts) {
  return parts.formats.type == DataType::kFp32 && has_fused_multiply_add();
}

/// Whether oneDNN's fp32 code computes mostly padding, because its vectors hold neighboring
/// outputs. Without stride, and with a kernel above 1 x 1, the products take these fractions of its
/// time on Zen 4: forward, if narrow, 0.2 to 0.8, gradient of the input 0.6 to 1.05. With a stride
/// or a kernel of 1 x 1 they take up to 4 times as long.
bool has_few_outputs(const ConvolutionParts& parts) {
  constexpr int64_t kFewOutputs = 4;
  const Convolution& c = parts.convolution;
  return parts.formats.type == DataType::kFp32 && has_fused_multiply_add() && c.groups == 1 &&
         c.outputs <= kFewOutputs && c.stride[0] * c.stride[1] == 1 &&
         c.kernel[0] * c.kernel[1] > 1 && c.input.area() <= 2 * c.output.area();
}

std::unique_ptr<ConvolutionPass> make_direct_forward(const ConvolutionParts& parts) {
  const std::optional description = parts.forward;
  if (is_own_depthwise(parts, description)) return make_depthwise_forward(parts);
  if (product_is_better(parts, description)) return nullptr;
  if (has_few_outputs(parts) && product_forward_is_narrow(parts)) return nullptr;
  if (is_gemm(description) && product_is_faster_than_gemm_forward(parts)) return nullptr;
  return std::make_unique<DirectForward>(parts);
}

std::unique_ptr<ConvolutionPass> make_direct_backward_data(const ConvolutionParts& parts) {
  const auto description = parts.onednn.backward_data(
      parts.formats, parts.onednn.any_weight_of(parts.formats.type), parts.forward);
  if (is_own_depthwise(parts, description)) return make_depthwise_backward_data(parts);
  if (product_is_better(parts, description) || has_few_outputs(parts)) return nullptr;
  return std::make_unique<DirectBackwardData>(parts, *description);
}

}  // namespace poseidon::layers::cpu
