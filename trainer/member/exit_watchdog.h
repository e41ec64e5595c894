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

/// Exit watchdog: calls a function that ends the process if the threads of a job do not finish in
/// time. For example, a thread may hang in a read from a file server that does not answer. Time in
/// which the process was stopped (SIGSTOP, migration of a virtual machine) does not count.
class ExitWatchdog {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called in the watchdog's thread. If it is null, the watchdog does nothing.
  using OnTimeout = std::function<void(const std::string& why)>;

  explicit ExitWatchdog(OnTimeout on_timeout);
  /// Stops the watchdog. Destroy it after all watched threads have ended.
  ~ExitWatchdog();
  ExitWatchdog(const ExitWatchdog&) = delete;
  ExitWatchdog& operator=(const ExitWatchdog&) = delete;

  /// Calls OnTimeout after `period`, unless the destructor, disarm() or arm() is called earlier.
  /// `why`: the reason in the message, such as "the threads of the job did not end". Called by any
  /// thread.
  void arm(Clock::duration period, std::string why);
  void disarm();

 private:
  void watch();
  void wait_a_while() REQUIRES(mutex_);

  const OnTimeout on_timeout_;
  Mutex mutex_;
  Condition changed_;
  std::optional<Clock::duration> left_ GUARDED_BY(mutex_);  ///< until OnTimeout; nullopt: not armed
  std::string why_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// Time limit for the compute thread to stop. A step cannot be interrupted, so the limit is four
/// times the longest step, at least 5 s.
class StopTimeout {
 public:
  /// Reports the duration of a step. Called by the compute thread.
  void add_step_time(double ms) {
    longest_ms_ = std::max<int64_t>(longest_ms_, static_cast<int64_t>(ms));
  }
  /// Called by any thread.
  ExitWatchdog::Clock::duration period() const {
    return std::max(kMinPeriod, std::chrono::milliseconds(4 * longest_ms_));
  }

 private:
  static constexpr std::chrono::milliseconds kMinPeriod{5000};
  std::atomic<int64_t> longest_ms_ = 0;
};

}  // namespace poseidon::trainer
