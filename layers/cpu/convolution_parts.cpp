#include "layers/cpu/convolution_parts.h"

#include <algorithm>
#include <array>

#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/isa.h"
#include "layers/cpu/convolution_direct.h"

namespace poseidon::layers::cpu {

namespace {

ConvolutionParts parts_in(CpuDevice& device, const Convolution& convolution,
                          const OnednnConvolution& onednn, const ConvolutionOptions& options,
                          const ConvolutionFormats& formats,
                          const OnednnConvolution::Forward& description) {
  ConvolutionParts parts{.device = device,
                         .convolution = convolution,
                         .onednn = onednn,
                         .formats = formats,
                         .relu = options.relu,
                         .training = options.training,
                         .forward = description,
                         .kept_weight = product_weight(onednn)};
  if (depthwise_is_legal(device, convolution, formats)) {
    parts.kept_weight = depthwise_weight(onednn);
    return parts;
  }
  if (product_is_better(parts, std::optional(description))) return parts;
  ConvolutionFormats fp32 = formats;
  fp32.type = DataType::kFp32;
  const auto of_weight =
      formats.type == DataType::kFp32
          ? description
          : *onednn.forward(fp32, onednn.any_weight_of(DataType::kFp32), options.training);
  parts.kept_weight = of_weight.weights_desc();
  return parts;
}

/// The formats if the passes are Poseidon's own products of patches. Convolutions with groups use
/// channels last, because the channels of a group are then contiguous.
ConvolutionFormats formats_of_product(CpuDevice& device, const Convolution& convolution,
                                      DataType type) {
  if (convolution.groups > 1) return {Layout::kChannelsLast, Layout::kChannelsLast, type};
  const Layout blocked = device.blocked_layout();
  return {convolution.input.channels() <= 4 ? Layout::kPlain : blocked, blocked, type};
}

/// Whether channels last is faster than a plain input for an image in bf16. If outputs do not fill
/// a block of 16, oneDNN computes the gradient of the weight only in channels last. That code takes
/// 0.1 to 0.8 of the time of Poseidon's product without AMX. For a small weight of one channel, a
/// following pooling loses more in channels last than the convolution gains.
bool channels_last_is_faster_for_image(const Convolution& convolution,
                                       const OnednnConvolution& onednn,
                                       const ConvolutionFormats& plain) {
  constexpr int64_t kSmallWeight = 600;
  const Convolution& c = convolution;
  const bool is_small =
      c.input.channels() == 1 && c.outputs * c.kernel[0] * c.kernel[1] <= kSmallWeight;
  if (poseidon::cpu::has_amx_products() || is_small) return false;
  const ConvolutionFormats last{Layout::kChannelsLast, Layout::kChannelsLast, plain.type};
  const auto any = onednn.any_weight_of(plain.type);
  const auto of_plain = onednn.forward(plain, any, true), of_last = onednn.forward(last, any, true);
  if (!is_real(of_plain) || !is_real(of_last)) return false;
  const auto order = onednn.any_weight_of(DataType::kFp32);
  const auto weights = onednn.backward_weights(last, order, *of_last);
  return !is_real(onednn.backward_weights(plain, order, *of_plain)) && is_real(weights) &&
         !is_gemm(weights);
}

/// Whether the gradient of the input is faster in channels last with AVX2, if oneDNN has no code
/// for it in `blocked`. Poseidon's product computes each tap of a stride class for all cells of the
/// input, also for cells whose tap is outside of the output. oneDNN's gemm computes only the cells
/// of the output.
bool channels_last_is_faster_for_gradient(CpuDevice& device, const Convolution& c,
                                          const OnednnConvolution& onednn,
                                          const ConvolutionFormats& blocked) {
  constexpr int64_t kMostWaste = 3;
  if (blocked.type != DataType::kFp32 || device.blocked_layout() != Layout::kBlocked8 ||
      !has_fused_multiply_add() || c.groups > 1 ||
      c.input.area() < kMostWaste * c.stride[0] * c.stride[1] * c.output.area())
    return false;
  const ConvolutionFormats last{Layout::kChannelsLast, Layout::kChannelsLast, blocked.type};
  const auto any = onednn.any_weight_of(blocked.type);
  const auto of_blocked = onednn.forward(blocked, any, true),
             of_last = onednn.forward(last, any, true);
  return is_real(of_blocked) && is_real(of_last) &&
         !is_real(onednn.backward_data(blocked, any, *of_blocked)) &&
         is_real(onednn.backward_data(last, any, *of_last));
}

/// The formats to try, in order of preference. A layer has the same formats in training and in
/// tests.
std::vector<ConvolutionFormats> candidate_formats(CpuDevice& device, const Convolution& convolution,
                                                  const OnednnConvolution& onednn,
                                                  const ConvolutionOptions& options) {
  const DataType type = options.type;
  const bool is_image = convolution.input.channels() <= 4 && convolution.groups == 1;
  const Layout blocked_layout = device.blocked_layout();
  const ConvolutionFormats last{Layout::kChannelsLast, Layout::kChannelsLast, type},
      blocked{blocked_layout, blocked_layout, type}, image{Layout::kPlain, blocked_layout, type};
  std::vector<ConvolutionFormats> candidates;
  const bool prefers_last =
      options.layout == layout_name(Layout::kChannelsLast) ||
      (options.layout.empty() &&
       (is_image ? type == DataType::kBf16 &&
                       channels_last_is_faster_for_image(convolution, onednn, image)
                 : channels_last_is_faster_for_gradient(device, convolution, onednn, blocked)));
  if (prefers_last) candidates.push_back(last);
  if (is_image) candidates.push_back(image);
  if (!is_image || type == DataType::kFp32)
    candidates.insert(candidates.end(), {blocked, last, {Layout::kPlain, Layout::kPlain, type}});
  return candidates;
}

}  // namespace

/// Uses the first candidate for which Poseidon has depthwise code, or oneDNN has optimized code.
/// Unless options.layout requests channels last, or channels last makes a backward pass much
/// faster, blocked layouts are preferred. Without groups, an input of at most 4 channels, such as
/// an image, is then plain. If no candidate has such code, uses the formats of Poseidon's product.
/// Also uses them for such an image in bf16, because oneDNN's code for it reads blocks of 16
/// channels.
ConvolutionParts choose_parts(CpuDevice& device, const Convolution& convolution,
                              const OnednnConvolution& onednn, const ConvolutionOptions& options) {
  const DataType type = options.type;
  for (const ConvolutionFormats& formats :
       candidate_formats(device, convolution, onednn, options)) {
    const auto description = onednn.forward(formats, onednn.any_weight_of(type), options.training);
    if (description && (depthwise_is_legal(device, convolution, formats) || is_real(description)))
      return parts_in(device, convolution, onednn, options, formats, *description);
  }
  const ConvolutionFormats formats = formats_of_product(device, convolution, type);
  const auto reference = onednn.forward(formats, onednn.any_weight_of(type), options.training);
  if (!reference)
    throw LogicError(text("[convolution '", convolution.name, "'] oneDNN has no implementation"));
  return parts_in(device, convolution, onednn, options, formats, *reference);
}

std::unique_ptr<ConvolutionPass> make_direct_or_product(const ConvolutionParts& parts,
                                                        std::string& method, PassMaker direct,
                                                        PassMaker product) {
  std::unique_ptr<ConvolutionPass> pass;
  if (method != kProduct) pass = direct(parts);
  method = pass != nullptr ? kDirect : kProduct;
  return pass != nullptr ? std::move(pass) : product(parts);
}

size_t ConvolutionPasses::scratch_bytes() const {
  size_t most = 0;
  for (const auto* pass : {&forward, &backward_data, &backward_weights})
    if (*pass) most = std::max(most, (*pass)->scratch_bytes());
  return most;
}

Implementations ConvolutionPasses::implementations() const {
  const auto name = [](const auto& pass) { return pass ? pass->implementation() : ""; };
  return {.forward = name(forward),
          .backward_data = name(backward_data),
          .backward_weights = name(backward_weights)};
}

}  // namespace poseidon::layers::cpu
