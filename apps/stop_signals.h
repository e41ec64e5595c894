#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace poseidon::apps {

/// SIGINT, SIGTERM and SIGHUP, but for those that were ignored when the program began (by nohup, by
/// a shell for what runs in its background, by poseidon-train for its children), as requests to end
/// in good order; the next one ends the process at once. Signals within a moment are one: launchers
/// send to a process and to its group, `timeout` sends SIGCONT and TERM to both.
///
/// SIGPIPE is ignored: when the reader of this program's output is gone, the program goes on mute.
class StopSignals {
 public:
  /// `asked` is called with the signal's name, once, in a thread of this object's. To be made
  /// before any other thread: a thread takes over what is blocked from the one that makes it.
  explicit StopSignals(std::function<void(const std::string& signal)> asked);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether one has come.
  const std::atomic<bool>& come() const { return come_; }

 private:
  void listen();
  void take(int signal);

  const std::function<void(const std::string& signal)> asked_;
  std::atomic<bool> come_ = false, ending_ = false;
  std::chrono::steady_clock::time_point first_{};
  sigset_t caught_{};
  std::thread thread_;
};

}  // namespace poseidon::apps
