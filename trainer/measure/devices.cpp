#include "trainer/measure/devices.h"

#include "core/cores.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/json.h"
#include "trainer/step/backends.h"

namespace poseidon::trainer {

namespace {

void add_gpus(Json& devices) {
  const cuda::GpuList list = gpus_of_this_machine();
  devices["cuda"] = {{"driver", list.driver}, {"runtime", list.runtime}};
  for (const cuda::Gpu& gpu : list.gpus)
    devices["gpus"].push_back({{"name", gpu.name},
                               {"memory_bytes", gpu.memory_bytes},
                               {"compute_capability", text(gpu.major, ".", gpu.minor)}});
}

}  // namespace

Json list_devices() {
  Json devices{
      {"cpu", {{"arithmetic", poseidon::cpu::instruction_set()}, {"cores", available_cores()}}},
      {"gpus", Json::array()}};
  try {
    add_gpus(devices);
  } catch (const ConfigError& error) {
    devices["why_no_gpus"] = error.what();
  }
  return devices;
}

}  // namespace poseidon::trainer
