#include <map>

#include "core/error.h"
#include "layers/cuda/cuda_layer.h"

namespace poseidon::layers::cuda {

namespace {

using Maker = std::unique_ptr<Layer> (*)(const LayerRequest&, const LayerContext&);

const std::map<std::string_view, Maker>& makers() {
  static const std::map<std::string_view, Maker> kMakers{
#define POSEIDON_MAKER(type, Class, maker, description) {#type, make_##maker},
      POSEIDON_LAYER_TYPES(POSEIDON_MAKER)
#undef POSEIDON_MAKER
  };
  return kMakers;
}

class CudaFactory final : public LayerFactory {
 public:
  CudaFactory(CudaDevice& device, std::unique_ptr<Products> products)
      : products_(std::move(products)), making_{device, *products_} {}

  Device& device() override { return making_.device; }

  std::unique_ptr<Layer> make(const LayerRequest& request) override {
    const auto maker = makers().find(request.definition.type());
    if (maker == makers().end())
      throw ConfigError(text("[", request.definition.type(), " '", request.definition.name,
                             "'] this layer type has no GPU implementation"));
    return maker->second(request, making_);
  }

  void add(std::span<const float> values, std::span<float> sums) override {
    combined_gradient(making_.device, addition_bindings(values, sums), std::nullopt);
  }

  std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return cuda::make_reorder(shape, from, to, making_.device);
  }

  std::unique_ptr<BatchInput> make_batch_input() override {
    return cuda::make_batch_input(making_.device);
  }

 private:
  const std::unique_ptr<Products> products_;
  const LayerContext making_;
};

}  // namespace

std::unique_ptr<LayerFactory> make_cuda_factory(CudaDevice& device,
                                                std::unique_ptr<Products> products) {
  return std::make_unique<CudaFactory>(device, std::move(products));
}

}  // namespace poseidon::layers::cuda
