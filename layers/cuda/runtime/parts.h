#pragma once

#include <memory>

#include "layers/cuda/cuda_layer.h"
#include "layers/update.h"

namespace poseidon::layers::cuda {

/// Products by cuDNN and cuBLASLt.
std::unique_ptr<Products> make_products(CudaDevice& device);

/// Updates by own kernels.
std::unique_ptr<Updater> make_updater(CudaDevice& device);

}  // namespace poseidon::layers::cuda
