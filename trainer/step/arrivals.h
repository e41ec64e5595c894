#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "core/mutex.h"

namespace poseidon::trainer {

/// The layers whose sums have arrived, from the thread that receives them to the one that computes;
/// or that nothing more will come.
class Arrivals {
 public:
  void push(uint32_t layer);
  /// Takes the layer that arrived first; none when there is none. This, wait() and check_alive()
  /// throw JobLost after lose().
  std::optional<uint32_t> take();
  /// Blocks until there is a layer to take.
  void wait();
  void check_alive();
  /// Says that the job is lost. Any thread may call it, and whoever waits learns of it.
  void lose(const std::string& why);

  /// What wait() calls when it has waited for a second. Set it before the first wait.
  void on_long_wait(std::function<void()> call) { on_long_wait_ = std::move(call); }

 private:
  using Clock = std::chrono::steady_clock;
  void wait_for_change(Clock::time_point& notice) REQUIRES(mutex_);

  std::function<void()> on_long_wait_ = [] {};
  Mutex mutex_;
  Condition changed_;
  std::deque<uint32_t> layers_ GUARDED_BY(mutex_);
  std::optional<std::string> lost_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
