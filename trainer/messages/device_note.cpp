#include "trainer/messages/device_note.h"

#include <set>

#include "core/cores.h"
#include "core/counted.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "trainer/step/backends.h"

namespace poseidon::trainer {

namespace {

constexpr const char* kExpected = "cpu, cuda, or cuda:1 and so on";

std::string words_of(const DeviceNote& device) {
  return text(device.arithmetic, ", ", counted(device.threads, "thread"));
}

}  // namespace

void DeviceNote::describe(Fields& fields) {
  fields.text("device", kind, "as device.type of a job", Presence::kRequired);
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
  return {.kind = device.type,
          .arithmetic = text(list.gpus[index].name, ", CUDA ", list.runtime, ", ", list.libraries,
                             ", ", device.precision),
          .threads = 1};
}

}  // namespace

DeviceNote device_note(const DeviceConfig& device) {
  if (device.type == kCudaDevice) return gpu_note(device);
  std::string arithmetic = cpu::instruction_set();
  if (device.precision == kBf16Precision)
    arithmetic += cpu::has_bf16_products() ? ", bf16 by instructions" : ", bf16 emulated";
  return {.kind = device.type,
          .arithmetic = std::move(arithmetic),
          .threads = device.threads > 0 ? device.threads : available_cores()};
}

DeviceName device_of_this_machine(const std::string& option, const std::string& name) {
  const DeviceName device = parse_device(option, name, kExpected);
  if (device.type != "cpu" && device.type != kCudaDevice)
    throw ConfigError(text(option, " ", name, ": expected ", kExpected));
  DeviceConfig asked;
  asked.type = device.type;
  asked.index = device.index;
  if (device.type == kCudaDevice) gpu_note(asked);
  return device;
}

std::string difference_of(const DeviceNotes& devices) {
  const auto& [first_rank, first] = *devices.begin();
  for (const auto& [rank, device] : devices)
    if (words_of(device) != words_of(first))
      return text("worker ", rank, " computes with ", words_of(device), ", worker ", first_rank,
                  " with ", words_of(first));
  return "";
}

std::string kinds_of(const DeviceNotes& devices) {
  std::set<std::string> kinds;
  for (const auto& [rank, device] : devices) kinds.insert(device.kind);
  std::string all;
  for (const std::string& kind : kinds) all += (all.empty() ? "" : " and ") + kind;
  return all;
}

Json devices_json(const DeviceNotes& devices) {
  Json list = Json::array();
  for (const auto& [worker, device] : devices) {
    DeviceNote copy = device;
    list.push_back({{"worker", worker}});
    list.back().update(write_fields([&](Fields& fields) { copy.describe(fields); }));
  }
  return list;
}

DeviceNotes devices_of_plan(const Json& plan) {
  DeviceNotes devices;
  if (!plan.is_object() || !plan.contains("devices")) return devices;
  const Json& list = plan["devices"];
  const JsonPlace place{"the plan", "/devices"};
  if (!list.is_array()) fail_at(place, "expected a list, got " + shown(list));
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t worker = 0;
    DeviceNote device;
    read_fields(list[i], place.at(i), [&](Fields& fields) {
      fields.integer("worker", worker, between(0, UINT16_MAX), "", Presence::kRequired);
      device.describe(fields);
    });
    devices[static_cast<uint16_t>(worker)] = device;
  }
  return devices;
}

}  // namespace poseidon::trainer
