#pragma once

#include <memory>

#include "layers/cpu/convolution_onednn.h"
#include "layers/cpu/cpu_layer.h"

namespace poseidon::layers::cpu {

/// One of the three passes of a convolution by one method, made once and run at every step.
class ConvolutionPass {
 public:
  virtual ~ConvolutionPass() = default;
  virtual size_t scratch_bytes() const = 0;
  /// `gradient` is the output's, which the forward pass makes no use of.
  virtual void run(const Bindings& memory, const Tensor& gradient) = 0;
  /// The name of its code (Implementations).
  virtual std::string implementation() const = 0;
  /// Whether it is right and fast: the library's reference code is slow, and some of its code is
  /// wrong for some geometries.
  virtual bool is_fast() const { return true; }
};

/// What the passes of one layer are made of. All must outlive them.
struct ConvolutionParts {
  CpuDevice& device;
  const Convolution& convolution;
  const OnednnConvolution& onednn;
  ConvolutionFormats formats;
  std::optional<float> relu;
  OnednnConvolution::Forward forward;     ///< by the direct method
  poseidon::cpu::MemoryDesc kept_weight;  ///< the weight as the layer keeps it, and its gradient
};

/// By the direct method: oneDNN's, or own code. nullptr where the library has nothing but slow
/// reference code, and a product of patches is legal.
std::unique_ptr<ConvolutionPass> make_direct_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_direct_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_direct_backward_weights(const ConvolutionParts& parts);

/// The direct method by own code for convolutions of which each channel is a group, in blocked
/// layouts: oneDNN 2.6 has only slow reference code where channels fill no block, and of kernels
/// wider than 3 for the weight's gradient.
bool depthwise_is_legal(CpuDevice& device, const Convolution& convolution,
                        const ConvolutionFormats& formats);
/// The order that these passes read the weight in.
poseidon::cpu::MemoryDesc depthwise_weight(const OnednnConvolution& onednn);
std::unique_ptr<ConvolutionPass> make_depthwise_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_depthwise_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_depthwise_backward_weights(const ConvolutionParts& parts);

/// The direct method by own code, where there is some: of kernels of 1 x 1, by the processor's
/// instructions for bf16, which it must have where the activations are bf16.
bool pointwise_is_legal(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_pointwise_backward_weights(const ConvolutionParts& parts);

/// By products of patches (layers/cpu/patch_product.h): own code for every geometry and layout, in
/// fp32.
bool product_is_legal(const ConvolutionParts& parts);
/// The order that these passes read the weight in.
poseidon::cpu::MemoryDesc product_weight(const OnednnConvolution& onednn);
std::unique_ptr<ConvolutionPass> make_product_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_product_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_product_backward_weights(const ConvolutionParts& parts);

/// By Winograd's (layers/cpu/winograd.h), where it is legal for geometry, formats and weight.
bool winograd_is_legal(const ConvolutionParts& parts);
/// By the fixed rule: whether it is faster than the direct method, where it is legal.
bool winograd_pays(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_backward_weights(const ConvolutionParts& parts);

}  // namespace poseidon::layers::cpu
