#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/portions.h"

/// Code that the three passes of the direct method share.
namespace poseidon::layers::cpu {

/// Whether oneDNN has an implementation that is not slow reference code.
template <class Description>
bool is_real(const std::optional<Description>& description) {
  return description && !poseidon::cpu::is_reference(*description);
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

/// Whether products of patches are faster than optimized code of oneDNN, or this code may be wrong.
/// oneDNN 2.6 seldom uses AMX for bf16 convolutions; its AMX code is slow if channels do not fill
/// blocks, and was sometimes wrong with long strides.
bool product_is_better(const ConvolutionParts& parts);
/// Whether to use products of patches for a pass.
template <class Description>
bool product_is_better(const ConvolutionParts& parts,
                       const std::optional<Description>& description) {
  return !is_real(description) || product_is_better(parts);
}

/// Makes the primitives of a pass in portions of the size of `each`. `channels` is the number of
/// channels that the pass computes. describe(portion) makes the optional description of a portion.
/// If oneDNN does not compute all portions by the implementation of `complete`, which describes the
/// complete pass, then this pass is the only portion.
template <class Primitive, class Describe>
PortionPrimitives<Primitive> make_portions(const ConvolutionParts& parts, int64_t channels,
                                           const Portion& each,
                                           const typename Primitive::primitive_desc& complete,
                                           const Describe& describe) {
  using Description = typename Primitive::primitive_desc;
  const int64_t samples = parts.convolution.input.samples();
  const auto describe_alike = [&](const Portion& portion) {
    std::optional<Description> description = describe(portion);
    if (description && poseidon::cpu::implementation_name(*description) !=
                           poseidon::cpu::implementation_name(complete))
      description.reset();
    return description;
  };
  PortionPrimitives<Primitive> divided(parts.device, divide(samples, channels, each),
                                       describe_alike);
  if (divided.is_complete()) return divided;
  return {parts.device, divide(samples, channels, {.samples = samples, .channels = channels}),
          [&](const Portion&) { return std::optional(complete); }};
}

/// Whether oneDNN's implementation copies the patches of each sample, then calls its general matrix
/// product ("x64:gemm:jit").
template <class Description>
bool is_gemm(const std::optional<Description>& description) {
  return description &&
         poseidon::cpu::implementation_name(*description).find("gemm") != std::string::npos;
}
/// Whether products of patches in fp32 are faster than is_gemm() code, for the forward pass and for
/// the gradient of the weight. Without fused multiply-adds (x86-64-v2), oneDNN's code is faster.
bool product_is_faster_than_gemm_forward(const ConvolutionParts& parts);
bool product_is_faster_than_gemm_weights(const ConvolutionParts& parts);

/// The order of `outputs` neighboring outputs of a weight in the order of `weight`. nullopt: their
/// elements are not contiguous.
inline std::optional<MemoryDesc> order_of_outputs(const MemoryDesc& weight, int64_t outputs) {
  poseidon::cpu::Dims extents = weight.dims();
  if (extents.size() == 5 || extents[0] == outputs) return weight;
  const size_t all = static_cast<size_t>(extents[0]);
  extents[0] = outputs;
  MemoryDesc order = weight.submemory_desc(extents, poseidon::cpu::Dims(extents.size(), 0));
  if (order.get_size() * all != weight.get_size() * static_cast<size_t>(outputs))
    return std::nullopt;
  return order;
}

/// The address of the first sample of a portion in a tensor that contains all samples.
/// `description` describes the samples of the portion.
inline void* first_of(const Portion& portion, const MemoryDesc& description, void* tensor) {
  const size_t bytes_of_sample = description.get_size() / static_cast<size_t>(portion.samples);
  return static_cast<std::byte*>(tensor) + static_cast<size_t>(portion.sample) * bytes_of_sample;
}

}  // namespace poseidon::layers::cpu
