#include "layers/cpu/convolution_parts.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace poseidon::layers::cpu {

namespace {

ConvolutionParts parts_in(CpuDevice& device, const Convolution& convolution,
                          const OnednnConvolution& onednn, const ConvolutionOptions& options,
                          const ConvolutionFormats& formats,
                          const OnednnConvolution::Forward& description) {
  const auto made = [&](const MemoryDesc& kept_weight) {
    return ConvolutionParts{device,       convolution,      onednn,      formats,
                            options.relu, options.training, description, kept_weight};
  };
  if (depthwise_is_legal(device, convolution, formats)) return made(depthwise_weight(onednn));
  ConvolutionFormats fp32 = formats;
  fp32.type = DataType::kFp32;
  const auto of_weight =
      formats.type == DataType::kFp32
          ? description
          : *onednn.forward(fp32, onednn.any_weight_of(DataType::kFp32), options.training);
  return made(of_weight.weights_desc());
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
/// formats of Poseidon's product.
ConvolutionParts choose_parts(CpuDevice& device, const Convolution& convolution,
                              const OnednnConvolution& onednn, const ConvolutionOptions& options) {
  const Layout blocked = device.blocked_layout();
  const DataType type = options.type;
  std::vector<ConvolutionFormats> candidates;
  if (options.layout == layout_name(Layout::kChannelsLast))
    candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast, type});
  if (convolution.input.channels() <= 4 && convolution.groups == 1)
    candidates.push_back({Layout::kPlain, blocked, type});
  candidates.push_back({blocked, blocked, type});
  candidates.push_back({Layout::kChannelsLast, Layout::kChannelsLast, type});
  candidates.push_back({Layout::kPlain, Layout::kPlain, type});
  for (const ConvolutionFormats& formats : candidates) {
    const auto description = onednn.forward(formats, onednn.any_weight_of(type), options.training);
    if (description && (depthwise_is_legal(device, convolution, formats) ||
                        !poseidon::cpu::is_reference(*description)))
      return parts_in(device, convolution, onednn, options, formats, *description);
  }
  const ConvolutionFormats formats = formats_of_product(device, convolution, type);
  const auto reference = onednn.forward(formats, onednn.any_weight_of(type), options.training);
  if (!reference)
    throw LogicError(text("[convolution '", convolution.name, "'] oneDNN has no implementation"));
  ConvolutionParts parts = parts_in(device, convolution, onednn, options, formats, *reference);
  if (type == DataType::kFp32) parts.kept_weight = product_weight(onednn);
  return parts;
}

std::unique_ptr<ConvolutionPass> make_direct_or_product(const ConvolutionParts& parts,
                                                        std::string& method, PassMaker direct,
                                                        PassMaker product) {
  std::unique_ptr<ConvolutionPass> pass;
  if (method != kProduct || !product_is_legal(parts)) pass = direct(parts);
  method = pass != nullptr ? kDirect : kProduct;
  return pass != nullptr ? std::move(pass) : product(parts);
}

bool ConvolutionPasses::are_fast() const {
  return std::ranges::all_of(std::array{&forward, &backward_data, &backward_weights},
                             [](const auto* pass) { return !*pass || (*pass)->is_fast(); });
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
