#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/service_notifier.h"
#include "trainer/member/heartbeat.h"

namespace poseidon::trainer {

/// Reports the state of this process to the service manager that started it: readiness and current
/// activity. While all parts (workers and servers of this process) have heartbeats, also reports
/// that the process is alive. Uses a separate thread.
class ServiceManagerReporter {
 public:
  using Parts = std::vector<std::shared_ptr<Heartbeat>>;

  /// `address` is the manager's socket (NOTIFY_SOCKET). `period` is the manager's watchdog timeout,
  /// after which the manager ends the process; 0: none. A request to `stop` is reported
  /// immediately.
  ServiceManagerReporter(const std::string& address, std::chrono::microseconds period, Parts parts,
                         std::stop_token stop);
  ~ServiceManagerReporter();
  ServiceManagerReporter(const ServiceManagerReporter&) = delete;
  ServiceManagerReporter& operator=(const ServiceManagerReporter&) = delete;

 private:
  using Clock = Heartbeat::Clock;

  void watch();
  void report(Clock::time_point now);
  void report_alive(Clock::time_point now);
  std::string status() const;
  Clock::duration pause() const;

  const ServiceNotifier notifier_;
  const std::chrono::microseconds period_;
  const Parts parts_;
  bool said_ready_ = false;
  std::string said_status_;
  Clock::time_point said_alive_{};
  Mutex mutex_;
  Condition changed_;
  bool over_ GUARDED_BY(mutex_) = false;
  std::stop_callback<std::function<void()>> stopping_;
  std::thread thread_;
};

}  // namespace poseidon::trainer
