#pragma once

#include <memory>
#include <stop_token>

#include "core/log.h"
#include "trainer/member/service_watch.h"

namespace poseidon::apps {

/// Reports the parts of this process to the service manager that the environment names
/// (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID: sd_notify(3), sd_watchdog_enabled(3)). Null where
/// it names none; one that cannot be reported to is a warning.
std::unique_ptr<trainer::ServiceWatch> watched_by_manager(trainer::ServiceWatch::Parts parts,
                                                          std::stop_token stop, Log& log);

}  // namespace poseidon::apps
