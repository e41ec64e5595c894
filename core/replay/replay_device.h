#pragma once

#include <chrono>

#include "core/device.h"
#include "core/memory.h"

namespace poseidon::replay {

/// A device that computes nothing. Its work takes a specified time, during which the calling thread
/// sleeps. Therefore one machine can run many more workers than it has cores. Device memory is host
/// memory that occupies physical memory only after a write.
class ReplayDevice final : public Device {
 public:
  ReplayDevice();

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override;
  size_t available() const override { return available_memory("/"); }
  bool shares_memory() const override { return true; }
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override;
  void read(std::span<const std::byte> from, std::span<std::byte> host) override {
    write(from, host);
  }
  void write(std::span<const std::byte> host, std::span<std::byte> to) override;
  Event record() override { return {}; }
  int threads() const override { return 1; }

  /// Runs `action`, and then sleeps until `milliseconds` have passed. This time starts at the
  /// scheduled end of the previous work, if that was at most 0.3 ms ago (kCatchUp). Thus late
  /// wake-ups do not accumulate. Otherwise the time starts now.
  template <class Action>
  void work(double milliseconds, Action action) {
    begin(milliseconds);
    action();
    end();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void begin(double milliseconds);
  void end();

  Clock::time_point busy_until_;
};

}  // namespace poseidon::replay
