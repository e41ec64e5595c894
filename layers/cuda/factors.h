#pragma once

#include "core/cuda/cuda_device.h"
#include "layers/layer.h"

namespace poseidon::layers::cuda {

/// Issues the gradients of a linear layer from the stacked factors of `samples` samples in device
/// memory. Each element of the weight's gradient is one chain of fused multiply-adds in the order
/// of the samples, and each element of the bias's gradient one chain of additions. These are the
/// bits that CPUs compute (layers/cpu/factors.h). `bias` may be null.
void rebuild_gradients(poseidon::cuda::CudaDevice& device, const FactorShape& shape,
                       int64_t samples, const FactorMemory& factors, float* weight, float* bias);

}  // namespace poseidon::layers::cuda
