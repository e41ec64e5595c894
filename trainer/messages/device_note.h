#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/fields.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

/// Worker to coordinator, before it is prepared: what the low bits of its arithmetic depend on. It
/// may differ between the workers of a job, where comm's facts may not.
struct DeviceNote {
  static constexpr const char* kAbout = "device";
  std::string arithmetic;  ///< libraries and instruction sets
  int64_t threads = 1;     ///< that compute
  void describe(Fields& fields);
};

/// Of this process, for a job's device.
DeviceNote device_note(const DeviceConfig& device);

/// The first difference between workers, by rank: "worker 1 computes with ..., worker 0 with ...";
/// "" where all are alike.
std::string difference_of(const std::map<uint16_t, DeviceNote>& devices);

}  // namespace poseidon::trainer
