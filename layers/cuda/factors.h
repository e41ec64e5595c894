#pragma once

#include "core/cuda/cuda_device.h"
#include "layers/convolution.h"

namespace poseidon::layers::cuda {

/// Issues the gradients of a linear layer from the stacked factors of `samples` samples in device
/// memory. Each element of the weight's gradient is one chain of fused multiply-adds in the order
/// of the samples, and each element of the bias's gradient one chain of additions. These are the
/// bits that CPUs compute (layers/cpu/factors.h). `bias` may be null.
void rebuild_gradients(poseidon::cuda::CudaDevice& device, const FactorShape& shape,
                       int64_t samples, const FactorMemory& factors, float* weight, float* bias);

/// Issues the gradients of a convolution from stacked factors in device memory. `stacked` is
/// Convolution::of_factors of all samples. The chains are in the order of samples and positions.
/// Each element of the bias's gradient is a sum in double, rounded once. These are the bits that
/// CPUs compute (layers/cpu/convolution_factors.h). The order of the weight is (outputs, kernel
/// height, kernel width, inputs / groups). `bias` may be null.
void rebuild_gradients(poseidon::cuda::CudaDevice& device, const Convolution& stacked,
                       const FactorMemory& factors, float* weight, float* bias);

/// Memory for the factors of `samples` samples, at the end of a layer's scratch memory. The factors
/// of the exchange may be in host memory, which kernels never access.
class FactorScratch {
 public:
  /// `passes_bytes`: scratch memory of the layer's passes, which precedes the factors.
  FactorScratch(const FactorShape& shape, int64_t samples, size_t passes_bytes);

  /// Bytes of the layer's scratch memory.
  size_t scratch_bytes() const { return activations_offset_ + activations_bytes_; }
  FactorMemory memory(std::byte* scratch) const;
  /// Issues a copy of the stacked factors, and returns its memory.
  FactorMemory copy(poseidon::cuda::CudaDevice& device, const FactorMemory& stacked,
                    std::byte* scratch) const;

 private:
  size_t deltas_offset_, activations_offset_;  ///< in scratch memory
  size_t deltas_bytes_, activations_bytes_;
};

}  // namespace poseidon::layers::cuda
