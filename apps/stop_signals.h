#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace poseidon::apps {

/// The signals by which batch systems announce that the time of a job is nearly over: SIGUSR1,
/// SIGUSR2 and, for its processor time, SIGXCPU.
inline constexpr const char* kDefaultStopSignals = "USR1,USR2,XCPU";

/// The signals in a list such as "USR1,ALRM"; none for "". Throws ConfigError for a signal that is
/// unknown or that no program may take for this.
std::vector<int> read_stop_signals(const std::string& list);

/// "SIGTERM: stopping after this step; once more ends at once".
std::string stopping_text(const std::string& signal, const std::string& what);

/// Signals as requests to end in good order: SIGINT, SIGTERM, SIGHUP, and those that `others`
/// names. Those that were ignored when the program began (by nohup, by a shell for what runs in its
/// background, by poseidon-train for its children) stay ignored. A second SIGINT, SIGTERM or SIGHUP
/// ends the process at once. Signals within a moment are one: launchers send to a process and to
/// its group, `timeout` sends SIGCONT and TERM to both. SIGUSR1, SIGUSR2 and SIGXCPU are ignored
/// where `others` does not name them.
///
/// SIGPIPE is ignored: when the reader of this program's output is gone, the program goes on mute.
class StopSignals {
 public:
  /// `asked` is called with the signal's name, once, in a thread of this object's. To be made
  /// before any other thread: a thread takes over what is blocked from the one that makes it.
  explicit StopSignals(std::function<void(const std::string& signal)> asked,
                       const std::vector<int>& others = read_stop_signals(kDefaultStopSignals));
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether one has come.
  const std::atomic<bool>& come() const { return come_; }

 private:
  void listen();
  void take(int signal);

  const std::function<void(const std::string& signal)> asked_;
  const int wake_up_;  ///< the signal that ends the listening thread
  std::atomic<bool> come_ = false, ending_ = false;
  bool insisted_ = false;  ///< SIGINT, SIGTERM or SIGHUP has come
  std::chrono::steady_clock::time_point insisted_at_{};
  sigset_t caught_{};
  std::thread thread_;
};

}  // namespace poseidon::apps
