#include "layers/cpu/convolution_parts.h"

#include <algorithm>
#include <array>

#include "core/error.h"
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

}  // namespace

/// Uses the first candidate for which Poseidon has depthwise code, or oneDNN has optimized code.
/// Unless options.layout requests channels last, blocked layouts are preferred. Without groups, an
/// input of at most 4 channels, such as an image, is plain. If no candidate has such code, uses the
/// formats of Poseidon's product. Also uses them for such an image in bf16, because oneDNN's code
/// for it reads blocks of 16 channels.
ConvolutionParts choose_parts(CpuDevice& device, const Convolution& convolution,
                              const OnednnConvolution& onednn, const ConvolutionOptions& options) {
  const Layout blocked = device.blocked_layout();
  const DataType type = options.type;
  const bool is_image = convolution.input.channels() <= 4 && convolution.groups == 1;
  std::vector<ConvolutionFormats> candidates;
  if (options.layout == layout_name(Layout::kChannelsLast))
    candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast, type});
  if (is_image) candidates.push_back({Layout::kPlain, blocked, type});
  if (!is_image || type == DataType::kFp32) {
    candidates.push_back({blocked, blocked, type});
    candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast, type});
    candidates.push_back({Layout::kPlain, Layout::kPlain, type});
  }
  for (const ConvolutionFormats& formats : candidates) {
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
