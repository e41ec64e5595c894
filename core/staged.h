#pragma once

#include <algorithm>
#include <span>

#include "core/device.h"

/// Classes through which a device's work accesses host values. A device that shares host memory
/// accesses the values directly. For other devices, a temporary staging buffer contains a copy.
namespace poseidon {

/// Host values that the device's work writes.
class StagedOutput {
 public:
  StagedOutput(Device& device, std::span<float> host) : device_(device), host_(host) {
    if (!device.shares_memory())
      staging_ = device.allocate(host.size_bytes(), MemoryKind::kStaging, "staging copies");
  }
  std::span<float> memory() const {
    return device_.shares_memory() ? host_ : staging_.as<float>().first(host_.size());
  }
  /// Blocks until the work is done. The host values are valid afterwards.
  void finish() {
    device_.record().wait();
    if (!device_.shares_memory()) std::ranges::copy(memory(), host_.begin());
  }

 private:
  Device& device_;
  std::span<float> host_;
  Buffer staging_;
};

/// Host values that the device's work reads.
class StagedInput {
 public:
  StagedInput(Device& device, std::span<const float> host) : device_(device), host_(host) {
    if (device.shares_memory()) return;
    staging_ = device.allocate(host.size_bytes(), MemoryKind::kStaging, "staging copies");
    std::ranges::copy(host, staging_.as<float>().begin());
  }
  /// Blocks until the work has read the values.
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
