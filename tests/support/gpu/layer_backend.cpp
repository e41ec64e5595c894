#include "tests/support/layer_backend.h"

#include <omp.h>

#include "core/cuda/cuda_device.h"
#include "layers/cuda/cuda_layer.h"
#include "tests/support/gpu/fake_driver.h"
#include "tests/support/gpu/host_products.h"

namespace poseidon::test {

namespace {

/// With the products that the factory's layers use.
class Factory final : public layers::LayerFactory {
 public:
  explicit Factory(cuda::CudaDevice& device)
      : factory_(layers::cuda::make_cuda_factory(device, products_)) {}

  Device& device() override { return factory_->device(); }
  std::unique_ptr<layers::Layer> make(const layers::LayerRequest& request) override {
    return factory_->make(request);
  }
  bool fuses_relu(const layers::Definition& definition) const override {
    return factory_->fuses_relu(definition);
  }
  bool fuses_residual(const layers::Definition& definition) const override {
    return factory_->fuses_residual(definition);
  }
  std::unique_ptr<layers::Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return factory_->make_reorder(shape, from, to);
  }

 private:
  HostProducts products_;
  std::unique_ptr<LayerFactory> factory_;
};

}  // namespace

LayerBackend make_layer_backend(int, DataType type) {
  // What brings a test's few numbers into order is not worth the waking of threads.
  omp_set_num_threads(1);
  auto driver = std::make_unique<cuda::FakeDriver>(cuda::FakeDriver::Options{.seed = 1});
  const cuda::Settings settings{.precision = type == DataType::kBf16 ? cuda::Precision::kBf16
                                                                     : cuda::Precision::kFp32};
  auto device = std::make_unique<cuda::CudaDevice>(std::move(driver), settings);
  auto factory = std::make_unique<Factory>(*device);
  return {std::move(device), std::move(factory)};
}

}  // namespace poseidon::test
