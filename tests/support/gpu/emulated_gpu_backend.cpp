#include "tests/support/gpu/emulated_gpu_backend.h"

#include "core/cuda/cuda_device.h"
#include "layers/cuda/cuda_layer.h"
#include "layers/cuda/update.h"
#include "tests/support/gpu/host_products.h"

namespace poseidon::test {

layers::Backend make_emulated_gpu_backend(const cuda::FakeDriver::Options& options,
                                          const cuda::Settings& settings) {
  auto device =
      std::make_unique<cuda::CudaDevice>(std::make_unique<cuda::FakeDriver>(options), settings);
  auto factory = layers::cuda::make_cuda_factory(*device, std::make_unique<HostProducts>());
  auto updater = layers::cuda::make_cuda_updater(*device);
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace poseidon::test
