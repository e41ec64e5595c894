#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/fields.h"
#include "trainer/job/config.h"
#include "trainer/job/device_list.h"

namespace poseidon::trainer {

/// Worker to coordinator, before comm::Prepared: the worker's devices. Kind and arithmetic affect
/// the low bits of results. Unlike comm's facts, they may differ between the workers of a job.
struct DeviceNote {
  static constexpr const char* kAbout = "device";
  std::string kind = "cpu";        ///< as device.type of a job
  std::string arithmetic;          ///< GPU model and libraries, or instruction set; precision
  bool fused_multiply_add = true;  ///< whether it rounds a product and a sum only once
  int64_t threads = 1;             ///< compute threads of each device
  std::string devices;             ///< in the format of --device
  void describe(Fields& fields);
};

/// Returns the note about these devices of this process. Throws ConfigError if a GPU does not exist
/// or the GPUs are of different kinds.
DeviceNote device_note(const DeviceConfig& device);

/// The devices of this machine that `given`, the value of --device, names. Throws ConfigError if a
/// GPU does not exist, if the GPUs are of different kinds, and for "replay".
DeviceList devices_of_this_machine(const std::string& given);

/// By rank of the worker.
using DeviceNotes = std::map<uint16_t, DeviceNote>;

/// The first difference between workers, in the order of ranks: "worker 1 computes with ..., worker
/// 0 with ..."; "" if all are equal. Requires at least one worker.
std::string difference_of(const DeviceNotes& devices);

/// Why these workers would compute different gradients from the same factors; "" if they compute
/// equal bits. Each element is a chain of multiply-adds, which has equal bits on all devices that
/// fuse them, and on all that do not.
std::string factors_fault(const DeviceNotes& devices);

/// The kinds of these devices, "cpu and cuda", and their names, "cpu and cuda:0, cuda:1".
std::string kinds_of(const DeviceNotes& devices);
std::string names_of(const DeviceNotes& devices);

/// Convert to and from the list "devices" in plan.json. If the plan has no such list,
/// devices_of_plan() returns no devices.
Json devices_json(const DeviceNotes& devices);
DeviceNotes devices_of_plan(const Json& plan);

}  // namespace poseidon::trainer
