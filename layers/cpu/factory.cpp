#include <map>

#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/reorder.h"

namespace poseidon::layers::cpu {

namespace {

using Maker = std::unique_ptr<Layer> (*)(const LayerRequest&, CpuDevice&);

const std::map<std::string_view, Maker>& makers() {
  static const std::map<std::string_view, Maker> kMakers{
#define POSEIDON_MAKER(type, Class, maker, description) {#type, make_##maker},
      POSEIDON_LAYER_TYPES(POSEIDON_MAKER)
#undef POSEIDON_MAKER
  };
  return kMakers;
}

class CpuFactory final : public LayerFactory {
 public:
  explicit CpuFactory(CpuDevice& device) : device_(device) {}

  Device& device() override { return device_; }

  std::unique_ptr<Layer> make(const LayerRequest& request) override {
    const auto maker = makers().find(request.definition.type());
    if (maker == makers().end())
      throw ConfigError(text("[", request.definition.type(), " '", request.definition.name,
                             "'] this layer type has no CPU implementation"));
    return maker->second(request, device_);
  }

  void add(std::span<const float> values, std::span<float> sums) override {
    combined_gradient(device_.team(), addition_bindings(values, sums), std::nullopt);
  }

  std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return cpu::make_reorder(device_.team(), shape, from, to);
  }

 private:
  CpuDevice& device_;
};

}  // namespace

std::unique_ptr<LayerFactory> make_cpu_factory(CpuDevice& device) {
  return std::make_unique<CpuFactory>(device);
}

}  // namespace poseidon::layers::cpu
