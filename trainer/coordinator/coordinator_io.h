#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "comm/asio/driver.h"
#include "trainer/coordinator/coordinator_session.h"

namespace poseidon::trainer {

/// The I/O thread of a coordinator, and the objects that live in this thread. Used by the main
/// thread.
class CoordinatorIo {
 public:
  /// Starts to listen; begin() starts the thread. `failed` is called in the I/O thread when that
  /// thread fails. `log` must outlive this object. Throws ConfigError, RunError.
  CoordinatorIo(const JoinOptions& join_options, RunPlan plan, Log& log,
                std::function<void(std::exception_ptr)> failed);
  ~CoordinatorIo() { stop(); }

  /// "host:port" at which members reach the coordinator.
  std::string address() const { return transport_->advertised(); }
  /// The plan, which belongs to the I/O thread. Call this only before begin() or after stop().
  const RunPlan& plan() const { return side_.plan; }
  /// Starts the thread and the job.
  void begin(CoordinatorSetting setting, const comm::Coordinator::Options& options);
  /// Calls `action` with the objects of the I/O thread, in that thread. Actions run in the order of
  /// the calls.
  template <class Action>
  void post(Action action) {
    transport_->post([this, action = std::move(action)] { action(side_); });
  }
  /// Reports an error of this process; the job fails.
  void report_error(const std::string& why) {
    post([why](CoordinatorSide& io) { io.coordinator->report_error(why); });
  }
  void stop() { transport_->stop(); }

 private:
  CoordinatorSide side_;
  std::unique_ptr<comm::AsioTransport> transport_;
  std::unique_ptr<CoordinatorSession> session_;  ///< set by begin()
  std::unique_ptr<comm::Coordinator> coordinator_;
};

}  // namespace poseidon::trainer
