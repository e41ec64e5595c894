#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace poseidon::apps {

/// Set by SIGINT or SIGTERM.
inline std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// From now on the first SIGINT or SIGTERM sets stop_asked; a second one ends the process at once.
inline void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (stop_asked.exchange(true)) _exit(1);
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace poseidon::apps
