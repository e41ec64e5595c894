#pragma once

#include <memory>
#include <stop_token>

#include "core/log.h"
#include "trainer/member/service_manager_reporter.h"

namespace poseidon::apps {

/// Creates an object that reports the state of `parts` to the service manager in the environment
/// (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID: sd_notify(3), sd_watchdog_enabled(3)). A request
/// to stop (`stop`) is reported immediately. Returns null if the environment names no manager. If
/// NOTIFY_SOCKET is invalid or no socket can be created, logs a warning and returns null. Ignores
/// an invalid value of the other variables.
std::unique_ptr<trainer::ServiceManagerReporter> watched_by_manager(
    trainer::ServiceManagerReporter::Parts parts, std::stop_token stop, Log& log);

}  // namespace poseidon::apps
