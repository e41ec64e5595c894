#pragma once

#include <chrono>

#include "core/device.h"
#include "core/memory.h"

namespace poseidon::replay {

/// A device that computes nothing: its work takes the time that it is said to take. The calling
/// thread sleeps for it, so a machine can run many more workers than it has cores. Its memory is
/// the host's, and takes room only where somebody writes to it.
class ReplayDevice final : public Device {
 public:
  ReplayDevice();

  Buffer allocate(size_t bytes, Place place, std::string_view purpose) override;
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

  /// Work that takes so long: what `action` takes of it is not slept for. What a sleep takes too
  /// long is taken off the ones that follow at once.
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
