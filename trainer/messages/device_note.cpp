#include "trainer/messages/device_note.h"

#include "core/cores.h"
#include "core/counted.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "trainer/step/backends.h"

namespace poseidon::trainer {

namespace {

std::string words_of(const DeviceNote& device) {
  return text(device.arithmetic, ", ", counted(device.threads, "thread"));
}

}  // namespace

void DeviceNote::describe(Fields& fields) {
  fields.text("arithmetic", arithmetic, "libraries and instruction sets", Presence::kRequired);
  fields.integer("threads", threads, between(1, 1 << 16), "that compute", Presence::kRequired);
}

namespace {

/// Of a GPU: its kind and its libraries decide which algorithms are chosen.
DeviceNote gpu_note(const DeviceConfig& device) {
  const cuda::GpuList list = gpus_of_this_machine();
  const auto index = static_cast<size_t>(device.index);
  if (index >= list.gpus.size())
    throw ConfigError(
        text("device cuda:", index, ": this machine has ", counted(list.gpus.size(), "GPU")));
  return {.arithmetic = text(list.gpus[index].name, ", CUDA ", list.runtime, ", ", list.libraries,
                             ", ", device.precision),
          .threads = 1};
}

}  // namespace

DeviceNote device_note(const DeviceConfig& device) {
  if (device.type == kCudaDevice) return gpu_note(device);
  std::string arithmetic = cpu::instruction_set();
  if (device.precision == kBf16Precision)
    arithmetic += cpu::has_bf16_products() ? ", bf16 by instructions" : ", bf16 emulated";
  return {.arithmetic = std::move(arithmetic),
          .threads = device.threads > 0 ? device.threads : available_cores()};
}

std::string difference_of(const std::map<uint16_t, DeviceNote>& devices) {
  const auto& [first_rank, first] = *devices.begin();
  for (const auto& [rank, device] : devices)
    if (words_of(device) != words_of(first))
      return text("worker ", rank, " computes with ", words_of(device), ", worker ", first_rank,
                  " with ", words_of(first));
  return "";
}

}  // namespace poseidon::trainer
