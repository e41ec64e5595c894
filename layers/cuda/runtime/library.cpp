#include "layers/cuda/library.h"

#include <array>

#include "core/cuda/runtime/gpus.h"
#include "core/cuda/runtime/runtime_driver.h"
#include "layers/cuda/cuda_layer.h"
#include "layers/cuda/runtime/library_products.h"
#include "layers/cuda/update.h"

namespace poseidon::layers::cuda {

namespace {

/// Compute capabilities of the machine code in this library: 90 is 9.0.
constexpr std::array kArchitectures{POSEIDON_CUDA_CODE};

class GpuLibrary final : public Library {
 public:
  poseidon::cuda::GpuList gpus() const override {
    poseidon::cuda::GpuList list = poseidon::cuda::list_gpus();
    list.libraries = library_versions();
    return list;
  }

  Backend make_backend(const GpuRequest& request) const override {
    // cuDNN and cuBLASLt allocate GPU memory, which requires the lock.
    const poseidon::cuda::GpuLock lock(request.index);
    auto driver = std::make_unique<poseidon::cuda::RuntimeDriver>(request.index);
    poseidon::cuda::expect_code_for(request.index, kArchitectures);
    auto device = std::make_unique<poseidon::cuda::CudaDevice>(std::move(driver), request.settings);
    auto factory =
        make_cuda_factory(*device, make_library_products(request.index, request.settings));
    auto updater = make_cuda_updater(*device);
    return {
        .device = std::move(device), .factory = std::move(factory), .updater = std::move(updater)};
  }
};

}  // namespace

}  // namespace poseidon::layers::cuda

extern "C" __attribute__((visibility("default"))) const char* poseidon_cuda_build() {
  static const std::string build = poseidon::layers::cuda::build_of(POSEIDON_VERSION);
  return build.c_str();
}

extern "C" __attribute__((visibility("default"))) const poseidon::layers::cuda::Library*
poseidon_cuda_library() {
  static const poseidon::layers::cuda::GpuLibrary library;
  return &library;
}
