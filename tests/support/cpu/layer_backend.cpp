#include "tests/support/layer_backend.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"

namespace poseidon::test {

LayerBackend make_layer_backend(int threads, DataType type) {
  auto device = std::make_unique<cpu::CpuDevice>(threads, type);
  auto factory = layers::cpu::make_cpu_factory(*device);
  auto updater = layers::cpu::make_cpu_updater(device->team());
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace poseidon::test
