#pragma once

#include <memory>

#include "core/cuda/cuda_device.h"
#include "layers/update.h"

namespace poseidon::layers::cuda {

/// The optimizer arithmetic of a GPU: the same bits as the CPU's. The device must outlive it.
std::unique_ptr<Updater> make_cuda_updater(poseidon::cuda::CudaDevice& device);

}  // namespace poseidon::layers::cuda
