#pragma once

#include <memory>

#include "core/cuda/cuda_device.h"
#include "layers/update.h"

namespace poseidon::layers::cuda {

/// Returns the optimizer arithmetic on a GPU. Its results equal the CPU's bit for bit. The device
/// must outlive it.
std::unique_ptr<Updater> make_cuda_updater(poseidon::cuda::CudaDevice& device);

}  // namespace poseidon::layers::cuda
