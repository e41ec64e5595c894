#include "layers/cpu/isa_backend.h"

#include "core/cpu/cpu_device.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"

namespace poseidon::layers::cpu::POSEIDON_ISA {

Backend make_backend(int threads, DataType activations) {
  auto device = std::make_unique<CpuDevice>(threads, activations);
  auto factory = make_cpu_factory(*device);
  auto updater = make_cpu_updater(device->team());
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace poseidon::layers::cpu::POSEIDON_ISA
