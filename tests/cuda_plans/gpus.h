#pragma once

#include <vector>

#include "layers/cuda/runtime/cudnn_device.h"

namespace poseidon::test {

/// The GPUs for which plans are made without a GPU: H200 (sm_90), A100 (sm_80), B200 (sm_100).
/// Their properties are from data sheets. cuDNN makes its plans from these properties.
std::vector<layers::cuda::CudnnDevice> described_gpus();

}  // namespace poseidon::test
