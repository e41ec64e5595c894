#include <map>

#include "core/error.h"
#include "layers/cuda/cuda_layer.h"

namespace poseidon::layers::cuda {

namespace {

using Maker = std::unique_ptr<Layer> (*)(const LayerRequest&, const Making&);

const std::map<std::string_view, Maker>& makers() {
  static const std::map<std::string_view, Maker> kMakers{
      {"batch_norm", make_batch_norm},
      {"concat", make_concat},
      {"convolution", make_convolution},
      {"dropout", make_dropout},
      {"eltwise", make_eltwise},
      {"flatten", make_flatten},
      {"linear", make_linear},
      {"lrn", make_lrn},
      {"pooling", make_pooling},
      {"relu", make_relu},
      {"sigmoid", make_sigmoid},
      {"softmax", make_softmax},
      {"softmax_loss", make_softmax_loss},
      {"tanh", make_tanh},
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

  std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return cuda::make_reorder(shape, from, to, making_.device);
  }

  std::unique_ptr<BatchInput> make_batch_input() override {
    return cuda::make_batch_input(making_.device);
  }

 private:
  const std::unique_ptr<Products> products_;
  const Making making_;
};

}  // namespace

std::unique_ptr<LayerFactory> make_cuda_factory(CudaDevice& device,
                                                std::unique_ptr<Products> products) {
  return std::make_unique<CudaFactory>(device, std::move(products));
}

}  // namespace poseidon::layers::cuda
