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
  /// Takes lose() back: what had arrived by then can be taken.
  void forget_loss();

  /// What wait() calls when it has waited for a second, and when such a wait has ended with a
  /// layer. Set it before the first wait.
  void on_long_wait(std::function<void()> begins, std::function<void()> ends) {
    long_wait_begins_ = std::move(begins);
    long_wait_ends_ = std::move(ends);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait_for_layer(Clock::time_point notice) REQUIRES(mutex_);

  std::function<void()> long_wait_begins_ = [] {}, long_wait_ends_ = [] {};
  Mutex mutex_;
  Condition changed_;
  std::deque<uint32_t> layers_ GUARDED_BY(mutex_);
  std::optional<std::string> lost_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
