#include "trainer/step/backends.h"

#include "layers/cpu/backend.h"

namespace poseidon::trainer {

layers::Backend make_backend(const DeviceConfig& config) {
  return layers::cpu::make_cpu_backend(static_cast<int>(config.threads));
}

}  // namespace poseidon::trainer
