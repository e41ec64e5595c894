#include "layers/cuda/library.h"

#include "core/cuda/runtime/gpus.h"
#include "core/cuda/runtime/runtime_driver.h"
#include "layers/cuda/runtime/library_products.h"
#include "layers/cuda/update.h"

namespace poseidon::layers::cuda {

namespace {

/// The layers of a GPU, with the plans of products that they are made by.
class PlannedFactory final : public LayerFactory {
 public:
  PlannedFactory(CudaDevice& device, int index)
      : products_(make_library_products(index, device.settings())),
        layers_(make_cuda_factory(device, *products_)) {}

  Device& device() override { return layers_->device(); }
  std::unique_ptr<Layer> make(const LayerRequest& request) override {
    return layers_->make(request);
  }
  bool fuses_relu(const Definition& definition) const override {
    return layers_->fuses_relu(definition);
  }
  bool fuses_residual(const Definition& definition) const override {
    return layers_->fuses_residual(definition);
  }
  std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return layers_->make_reorder(shape, from, to);
  }

 private:
  std::unique_ptr<Products> products_;
  std::unique_ptr<LayerFactory> layers_;
};

class GpuLibrary final : public Library {
 public:
  poseidon::cuda::GpuList gpus() const override {
    poseidon::cuda::GpuList list = poseidon::cuda::list_gpus();
    list.libraries = library_versions();
    return list;
  }

  Backend make_backend(const GpuRequest& request) const override {
    auto device = std::make_unique<CudaDevice>(
        std::make_unique<poseidon::cuda::RuntimeDriver>(request.index), request.settings);
    auto factory = std::make_unique<PlannedFactory>(*device, request.index);
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
