#include "trainer/messages/device_note.h"

#include <algorithm>
#include <set>

#include "core/cores.h"
#include "core/counted.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/isa.h"
#include "trainer/step/backends.h"

namespace poseidon::trainer {

void DeviceNote::describe(Fields& fields) {
  fields.text("device", kind, "as device.type of a job", Presence::kRequired);
  fields.text("arithmetic", arithmetic, "libraries and instruction sets", Presence::kRequired);
  fields.boolean("fused_multiply_add", fused_multiply_add,
                 "whether a product and a sum are rounded only once");
  fields.integer("threads", threads, between(1, 1 << 16), "that compute", Presence::kRequired);
  fields.text("devices", devices, "of the worker", Presence::kRequired);
}

namespace {

/// The kind of GPU and the library versions determine the algorithms, and so the low bits of
/// results.
DeviceNote gpu_note(const DeviceConfig& device) {
  const cuda::GpuList list = gpus_of_this_machine();
  std::string name;
  for (const int64_t number : device.indices) {
    const auto index = static_cast<size_t>(number);
    if (index >= list.gpus.size())
      throw ConfigError(
          text("device cuda:", index, ": this machine has ", counted(list.gpus.size(), "GPU")));
    if (!name.empty() && name != list.gpus[index].name)
      throw ConfigError(text("device ", device.names(), ": expected GPUs of one kind, got ", name,
                             " and ", list.gpus[index].name,
                             "; start a separate worker for each kind"));
    name = list.gpus[index].name;
  }
  return {.kind = device.type,
          .arithmetic =
              text(name, ", CUDA ", list.runtime, ", ", list.libraries, ", ", device.precision),
          .threads = 1,
          .devices = device.names()};
}

}  // namespace

DeviceNote device_note(const DeviceConfig& device) {
  if (device.type == kCudaDevice) return gpu_note(device);
  std::string arithmetic = cpu::instruction_set();
  if (device.precision == kBf16Precision)
    arithmetic += cpu::has_bf16_products() ? ", bf16 by instructions" : ", bf16 emulated";
  return {.kind = device.type,
          .arithmetic = std::move(arithmetic),
          .fused_multiply_add = has_fused_multiply_add(),
          .threads = device.threads_of_each() > 0 ? device.threads_of_each() : available_cores(),
          .devices = device.names()};
}

DeviceList devices_of_this_machine(const std::string& given) {
  DeviceList devices = read_device_list(given);
  if (devices.kind == kReplayDevice)
    throw ConfigError(text("--device ", given,
                           ": only a job can set replay, for all its workers (\"device.type\")"));
  DeviceConfig asked;
  asked.type = devices.kind;
  asked.indices = devices.indices;
  if (devices.kind == kCudaDevice) gpu_note(asked);
  return devices;
}

std::string difference_of(const DeviceNotes& devices) {
  const auto& [first_rank, first] = *devices.begin();
  for (const auto& [rank, device] : devices)
    if (device.arithmetic != first.arithmetic)
      return text("worker ", rank, " computes with ", device.arithmetic, ", worker ", first_rank,
                  " with ", first.arithmetic);
  return "";
}

std::string factors_fault(const DeviceNotes& devices) {
  const auto fused = [](const auto& device) { return device.second.fused_multiply_add; };
  const auto lacking = std::ranges::find_if_not(devices, fused);
  const auto having = std::ranges::find_if(devices, fused);
  if (lacking == devices.end() || having == devices.end()) return "";
  return text("worker ", lacking->first, " has no fused multiply-add (", lacking->second.arithmetic,
              "), but worker ", having->first, " has");
}

namespace {

/// The distinct values of one field, joined by "and".
std::string each_of(const DeviceNotes& devices, std::string DeviceNote::*what) {
  std::set<std::string> different;
  for (const auto& [rank, device] : devices) different.insert(device.*what);
  std::string all;
  for (const std::string& one : different) all += (all.empty() ? "" : " and ") + one;
  return all;
}

}  // namespace

std::string kinds_of(const DeviceNotes& devices) { return each_of(devices, &DeviceNote::kind); }
std::string names_of(const DeviceNotes& devices) { return each_of(devices, &DeviceNote::devices); }

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
  const JsonPath place{"the plan", "/devices"};
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
