#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/fields.h"
#include "trainer/job/config.h"
#include "trainer/job/device_list.h"

namespace poseidon::trainer {

/// Worker to coordinator, before it is prepared: what the low bits of its arithmetic depend on. It
/// may differ between the workers of a job, where comm's facts may not.
struct DeviceNote {
  static constexpr const char* kAbout = "device";
  std::string kind = "cpu";  ///< as device.type of a job
  std::string arithmetic;    ///< libraries and instruction sets
  int64_t threads = 1;       ///< that compute, of each device
  std::string devices;       ///< as --device has them
  void describe(Fields& fields);
};

/// Of this process, for a device.
DeviceNote device_note(const DeviceConfig& device);

/// The devices of this machine that --device names. Throws ConfigError where there are none.
DeviceList devices_of_this_machine(const std::string& given);

/// By rank of worker.
using DeviceNotes = std::map<uint16_t, DeviceNote>;

/// The first difference between workers, by rank: "worker 1 computes with ..., worker 0 with ...";
/// "" where all are alike.
std::string difference_of(const DeviceNotes& devices);

/// The kinds of these devices, "cpu and cuda", and their names, "cpu and cuda:0, cuda:1".
std::string kinds_of(const DeviceNotes& devices);
std::string names_of(const DeviceNotes& devices);

/// The list of them as plan.json has it, and what such a list says; none of a plan without one.
Json devices_json(const DeviceNotes& devices);
DeviceNotes devices_of_plan(const Json& plan);

}  // namespace poseidon::trainer
