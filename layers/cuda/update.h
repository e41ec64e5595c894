#pragma once

#include <memory>

#include "core/cuda/cuda_device.h"
#include "layers/update.h"

namespace poseidon::layers::cuda {

/// Returns the Updater of a GPU, which computes the optimizer arithmetic. Its results equal those
/// of the CPU bit for bit. The device must outlive the updater.
std::unique_ptr<Updater> make_cuda_updater(poseidon::cuda::CudaDevice& device);

}  // namespace poseidon::layers::cuda
