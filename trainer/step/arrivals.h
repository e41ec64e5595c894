#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "core/mutex.h"

namespace poseidon::trainer {

/// Queue of the layers whose sums have arrived. It also reports the failure of the job. Any thread
/// may fill it; the compute thread reads it. From set_failed() to clear_failure(), wait() and
/// check_alive() throw JobFailed.
class Arrivals {
 public:
  void push(uint32_t layer);
  /// Removes and returns the layer that arrived first; nullopt if the queue is empty, or while the
  /// job is marked as failed. It does not throw, because a worker that has contributed to all sums
  /// of a step must end and report the step. Another worker may complete the step with these sums.
  std::optional<uint32_t> take();
  /// Blocks until the queue holds a layer, or throws JobFailed when the job is marked as failed.
  void wait();
  void check_alive();
  /// Marks the job as failed and wakes all waiting threads. Any thread may call it.
  void set_failed(const std::string& why);
  /// Undoes set_failed(). take() can then return the layers that arrived before the failure.
  void clear_failure();

  /// wait() calls `begins` after it has blocked for one second, and `ends` when such a long wait
  /// ends with a layer. Set both before the first wait. wait() calls them while it holds the lock,
  /// so they must not use this object.
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
  std::optional<std::string> failure_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
