#include "layers/cuda/runtime/parts.h"

#include "core/error.h"

namespace poseidon::layers::cuda {

std::unique_ptr<Products> make_products(CudaDevice&) {
  throw ConfigError("this build has no convolutions and products for GPUs yet");
}

std::unique_ptr<Updater> make_updater(CudaDevice&) {
  throw ConfigError("this build has no updates for GPUs yet");
}

}  // namespace poseidon::layers::cuda
