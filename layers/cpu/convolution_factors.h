#pragma once

#include "layers/cpu/convolution_pass.h"

namespace poseidon::layers::cpu {

/// The factors of a convolution (FactorShape), and the gradients that follow from the stacked
/// factors of many samples. The gradient of the weight is a product of patches. Each of its
/// elements is one chain of multiply-adds in the order of samples and positions, and each element
/// of the bias's gradient a sum in this order (sum_bias_gradient). So the bits depend on neither
/// the number of threads nor the instruction set.
class ConvolutionFactors {
 public:
  /// `parts` are those of the layer. `samples`: of the stacked factors.
  ConvolutionFactors(const ConvolutionParts& parts, int64_t samples);

  std::string implementation() const { return gradient_->implementation(); }
  size_t scratch_bytes() const;
  /// Writes the layer's input, and the gradient of its output.
  void write(const Bindings& memory, const Tensor& gradient, const FactorMemory& factors) const;
  /// See Layer::rebuild.
  void rebuild(const FactorMemory& factors, const Bindings& memory, const GradientSink* sink) const;

 private:
  /// Bytes of a copy of the layer's input; 0 if no copy is needed.
  size_t copy_bytes() const;

  CpuDevice& device_;
  const Convolution& convolution_;
  Convolution stacked_;  ///< the convolution of all stacked samples
  size_t weight_elements_;
  std::unique_ptr<ConvolutionPass> gradient_;
};

}  // namespace poseidon::layers::cpu
