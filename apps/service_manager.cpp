#include "apps/service_manager.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/failure.h"

namespace poseidon::apps {

namespace {

/// Returns the whole number >= 0 in an environment variable. Returns `otherwise` if the variable is
/// not set or has another value.
int64_t number_in_environment(const char* variable, int64_t otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return otherwise;
  int64_t number = 0;
  const char* end = value + std::strlen(value);
  const auto [rest, error] = std::from_chars(value, end, number);
  return error == std::errc() && rest == end && number >= 0 ? number : otherwise;
}

/// Returns the manager's watchdog timeout; 0: the manager expects no heartbeats from this process.
std::chrono::microseconds watchdog_period() {
  if (number_in_environment("WATCHDOG_PID", ::getpid()) != ::getpid()) return {};
  return std::chrono::microseconds(number_in_environment("WATCHDOG_USEC", 0));
}

}  // namespace

std::unique_ptr<trainer::ServiceManagerReporter> watched_by_manager(
    trainer::ServiceManagerReporter::Parts parts, std::stop_token stop, Log& log) {
  const char* address = std::getenv("NOTIFY_SOCKET");
  if (address == nullptr) return nullptr;
  try {
    return std::make_unique<trainer::ServiceManagerReporter>(address, watchdog_period(),
                                                             std::move(parts), std::move(stop));
  } catch (...) {
    log.warning(message_of(std::current_exception()));
    return nullptr;
  }
}

}  // namespace poseidon::apps
