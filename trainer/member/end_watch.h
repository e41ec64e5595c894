#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "core/mutex.h"

namespace poseidon::trainer {

/// Sees to it that a process ends when its job does. A thread may hang where nobody can interrupt
/// it, reading from a file server that is gone: then only the whole process can be ended.
/// Time in which the process stood still (SIGSTOP, a virtual machine that was moved) does not
/// count: its threads could do nothing.
class EndWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called in a thread of its own. Without it nothing is watched.
  using GiveUp = std::function<void(const std::string& why)>;

  explicit EndWatch(GiveUp give_up);
  /// All has come to its end in time.
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  /// Gives up when neither the destructor nor another call comes within `period`; `why` says what
  /// did not happen. From any thread.
  void expect(Clock::duration period, std::string why);
  /// Nothing is expected any more for now.
  void rest();

 private:
  void watch();
  void wait_a_while() REQUIRES(mutex_);

  const GiveUp give_up_;
  Mutex mutex_;
  Condition changed_;
  std::optional<Clock::duration> left_ GUARDED_BY(mutex_);  ///< until it gives up
  std::string why_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// How long the computing thread may take to cease: a step cannot be interrupted, and may be long.
class ComputingGrace {
 public:
  /// A step took so long. By the computing thread.
  void took(double ms) { longest_ms_ = std::max<int64_t>(longest_ms_, static_cast<int64_t>(ms)); }
  /// From any thread.
  EndWatch::Clock::duration period() const {
    return std::max(kLeast, std::chrono::milliseconds(4 * longest_ms_));
  }

 private:
  static constexpr std::chrono::milliseconds kLeast{5000};
  std::atomic<int64_t> longest_ms_ = 0;
};

}  // namespace poseidon::trainer
