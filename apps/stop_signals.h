#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace poseidon::apps {

/// The signals with which batch systems announce the end of a job's time: SIGUSR1 and SIGUSR2.
/// SIGXCPU announces the end of the job's processor time.
inline constexpr const char* kDefaultStopSignals = "USR1,USR2,XCPU";

/// Parses a list of signals such as "USR1,ALRM", or "none". Throws ConfigError for a signal
/// that is unknown or not allowed for this purpose.
std::vector<int> read_stop_signals(const std::string& list);

/// Returns a message such as "SIGTERM: stopping after this step; a second SIGTERM ends the process
/// at once".
std::string stopping_text(const std::string& signal, const std::string& what);

/// Receives signals as stop requests: SIGINT, SIGTERM, SIGHUP, and the signals in `others`.
/// - Signals that are ignored at program start stay ignored. Examples: a program under nohup,
///   background jobs of a shell, children of poseidon-train.
/// - A second SIGINT, SIGTERM or SIGHUP ends the process at once, with exit code 1.
/// - SIGINT, SIGTERM and SIGHUP within one second after the first of them do not count as a second
///   signal. Reason: launchers signal a process and its group, and `timeout` sends SIGCONT and
///   SIGTERM to both.
/// - SIGUSR1, SIGUSR2 and SIGXCPU are ignored unless `others` contains them.
/// - SIGPIPE is ignored. If the reader closes this program's output, the program continues without
///   output.
class StopSignals {
 public:
  /// Calls `asked` once, with the name of the first signal, in a separate thread. Construct this
  /// object before any other thread starts, since new threads inherit the signal mask.
  explicit StopSignals(std::function<void(const std::string& signal)> asked,
                       const std::vector<int>& others = read_stop_signals(kDefaultStopSignals));
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns a flag that is true after a stop signal has arrived.
  const std::atomic<bool>& come() const { return come_; }

 private:
  void listen();
  void take(int signal);

  const std::function<void(const std::string& signal)> asked_;
  const int wake_up_;  ///< the signal that ends the listening thread
  std::atomic<bool> come_ = false, ending_ = false;
  bool insisted_ = false;  ///< SIGINT, SIGTERM or SIGHUP has arrived
  std::chrono::steady_clock::time_point insisted_at_{};
  sigset_t caught_{};
  std::thread thread_;
};

}  // namespace poseidon::apps
