#pragma once

#include <optional>

#include "core/cpu/onednn.h"
#include "layers/convolution.h"

namespace poseidon::layers::cpu {

/// The formats of a convolution's activations and of their gradients.
struct ConvolutionFormats {
  Layout in = Layout::kPlain, out = Layout::kPlain;
  DataType type = DataType::kFp32;  ///< type of the activations, and of the operands of products
};

/// oneDNN's implementations of the three passes of a convolution, by its direct method. nullopt:
/// oneDNN has no implementation. All are made for one thread (OneThread).
class OnednnConvolution {
 public:
  using MemoryDesc = poseidon::cpu::MemoryDesc;
  using Dims = poseidon::cpu::Dims;
  using Forward = dnnl::convolution_forward::primitive_desc;
  using BackwardData = dnnl::convolution_backward_data::primitive_desc;
  using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;

  /// `relu`: the negative slope of a leaky relu on the output. `engine` must outlive
  /// this object.
  OnednnConvolution(const Convolution& convolution, std::optional<float> relu,
                    dnnl::engine& engine);

  /// `weight` may be any_weight_of().
  std::optional<Forward> forward(const ConvolutionFormats& formats, const MemoryDesc& weight,
                                 bool training) const;
  std::optional<BackwardData> backward_data(const ConvolutionFormats& formats,
                                            const MemoryDesc& weight, const Forward& hint) const;
  /// `weight` describes the gradient of the weight.
  std::optional<BackwardWeights> backward_weights(const ConvolutionFormats& formats,
                                                  const MemoryDesc& weight,
                                                  const Forward& hint) const;

  /// The same convolution of `samples` samples, and of `inputs` and `outputs` channels. Only a
  /// convolution without groups may have other numbers of channels.
  OnednnConvolution of(int64_t samples, int64_t inputs, int64_t outputs) const;

  /// (groups,) outputs and inputs of a group, kernel height, kernel width.
  const Dims& weight_shape() const { return weight_; }
  MemoryDesc canonical_weight() const;
  /// The weight in the order that oneDNN prefers.
  MemoryDesc any_weight_of(DataType type) const;

 private:
  MemoryDesc source(const ConvolutionFormats& formats) const;
  MemoryDesc target(const ConvolutionFormats& formats) const;
  MemoryDesc bias() const;

  Shape input_, output_;
  bool bias_;
  std::optional<float> relu_;
  dnnl::engine& engine_;
  Dims weight_, stride_, dilation_, padding_left_, padding_right_;
};

}  // namespace poseidon::layers::cpu
