#pragma once

#include <algorithm>
#include <span>

#include "core/device.h"

/// Values of the host where a device's work can reach them: where they lie if the device shares
/// the host's memory, else in staging memory for the time being.
namespace poseidon {

/// Values that the work writes.
class StagedOutput {
 public:
  StagedOutput(Device& device, std::span<float> host) : device_(device), host_(host) {
    if (!device.shares_memory())
      staging_ = device.allocate(host.size_bytes(), Place::kStaging, "values on their way");
  }
  std::span<float> memory() const {
    return device_.shares_memory() ? host_ : staging_.as<float>().first(host_.size());
  }
  /// Blocks until the work is done, and the values are the host's.
  void finish() {
    device_.record().wait();
    if (!device_.shares_memory()) std::ranges::copy(memory(), host_.begin());
  }

 private:
  Device& device_;
  std::span<float> host_;
  Buffer staging_;
};

/// Values that the work reads.
class StagedInput {
 public:
  StagedInput(Device& device, std::span<const float> host) : device_(device), host_(host) {
    if (device.shares_memory()) return;
    staging_ = device.allocate(host.size_bytes(), Place::kStaging, "values on their way");
    std::ranges::copy(host, staging_.as<float>().begin());
  }
  /// The work has read them.
  ~StagedInput() { device_.record().wait(); }
  StagedInput(const StagedInput&) = delete;
  StagedInput& operator=(const StagedInput&) = delete;

  std::span<const float> memory() const {
    return device_.shares_memory() ? host_ : std::span<const float>(staging_.as<float>());
  }

 private:
  Device& device_;
  std::span<const float> host_;
  Buffer staging_;
};

}  // namespace poseidon
