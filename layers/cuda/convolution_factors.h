#pragma once

#include "layers/cuda/factors.h"

namespace poseidon::layers::cuda {

/// The factors of a convolution (FactorShape), and the gradients that follow from the stacked
/// factors of many samples.
class ConvolutionFactors {
 public:
  /// `samples`: of the stacked factors. `passes_bytes`: scratch memory of the layer's passes.
  ConvolutionFactors(poseidon::cuda::CudaDevice& device, const Convolution& convolution,
                     int64_t samples, size_t passes_bytes);

  /// Bytes of the layer's scratch memory.
  size_t scratch_bytes() const { return scratch_.scratch_bytes(); }
  /// Issues writes of the layer's input, and of the gradient of its output.
  void write(const Bindings& memory, const Tensor& gradient, const FactorMemory& factors) const;
  /// Issues the gradients of the parameters (rebuild_gradients).
  void rebuild(const FactorMemory& factors, const Bindings& memory) const;

 private:
  /// Issues a copy of `from` to `to` as fp32. Uses `scratch` if `from` is bf16.
  void write_values(const Tensor& from, float* to, float* scratch) const;

  poseidon::cuda::CudaDevice& device_;
  const Convolution& convolution_;
  Convolution stacked_;  ///< the convolution of all stacked samples
  FactorScratch scratch_;
};

}  // namespace poseidon::layers::cuda
