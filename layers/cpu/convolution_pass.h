#pragma once

#include <memory>

#include "layers/cpu/convolution_onednn.h"
#include "layers/cpu/cpu_layer.h"

namespace poseidon::layers::cpu {

/// One of the three passes of a convolution by one method. Created once, and run in every step.
class ConvolutionPass {
 public:
  virtual ~ConvolutionPass() = default;
  virtual size_t scratch_bytes() const = 0;
  /// `gradient` is the output's gradient. The forward pass ignores it.
  virtual void run(const Bindings& memory, const Tensor& gradient) = 0;
  /// The name of the pass's code, as in Implementations.
  virtual std::string implementation() const = 0;
};

/// The data from which the passes of one layer are created. The referenced objects must outlive the
/// passes.
struct ConvolutionParts {
  CpuDevice& device;
  const Convolution& convolution;
  const OnednnConvolution& onednn;
  ConvolutionFormats formats;
  std::optional<float> relu;
  bool training;
  OnednnConvolution::Forward forward;     ///< description of oneDNN's forward pass
  poseidon::cpu::MemoryDesc kept_weight;  ///< order of the layer's weight and of its gradient
};

/// The direct method, by oneDNN or by Poseidon's own code. nullptr: a product of patches should
/// replace oneDNN's code.
std::unique_ptr<ConvolutionPass> make_direct_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_direct_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_direct_backward_weights(const ConvolutionParts& parts);

/// The direct method by Poseidon's own code, for convolutions in which each channel is a group, in
/// blocked layouts. oneDNN 2.6 has only slow reference code if channels do not fill a block, and
/// for the weight's gradient of kernels wider than 3.
bool depthwise_is_legal(CpuDevice& device, const Convolution& convolution,
                        const ConvolutionFormats& formats);
/// The weight order that these passes read.
poseidon::cpu::MemoryDesc depthwise_weight(const OnednnConvolution& onednn);
std::unique_ptr<ConvolutionPass> make_depthwise_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_depthwise_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_depthwise_backward_weights(const ConvolutionParts& parts);

/// The backward weights pass of 1 x 1 kernels in bf16, by Poseidon's own code. The code uses the
/// processor's bf16 instructions. Convolutions with bf16 formats exist only on processors that have
/// these instructions.
bool pointwise_is_legal(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_pointwise_backward_weights(const ConvolutionParts& parts);

/// Products of patches (layers/cpu/patch_product.h, bf16_patch_product.h): Poseidon's own code for
/// every geometry, layout and type.
/// The weight order that these passes read.
poseidon::cpu::MemoryDesc product_weight(const OnednnConvolution& onednn);
std::unique_ptr<ConvolutionPass> make_product_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_product_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_product_backward_weights(const ConvolutionParts& parts);
/// The backward weights pass of fp32 activations, in which each element of the weight's gradient is
/// one chain of multiply-adds in the order of samples and positions.
std::unique_ptr<ConvolutionPass> make_gradient_in_order(const ConvolutionParts& parts);
/// Whether the forward pass is a NarrowProduct (layers/cpu/narrow_product.h) in fp32.
bool product_forward_is_narrow(const ConvolutionParts& parts);

/// Winograd's method (layers/cpu/winograd.h). It is legal only for some geometries, formats and
/// weight orders.
bool winograd_is_legal(const ConvolutionParts& parts);
/// The fixed rule: whether Winograd's method is faster than the direct method. Requires
/// winograd_is_legal().
bool winograd_is_faster(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_forward(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_backward_data(const ConvolutionParts& parts);
std::unique_ptr<ConvolutionPass> make_winograd_backward_weights(const ConvolutionParts& parts);

}  // namespace poseidon::layers::cpu
