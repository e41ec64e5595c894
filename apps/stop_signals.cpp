#include "apps/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "core/error.h"

namespace poseidon::apps {

namespace {

constexpr auto kMoment = std::chrono::seconds(1);
constexpr std::array kInsistent{SIGINT, SIGTERM, SIGHUP};
constexpr std::array kAnnouncing{SIGUSR1, SIGUSR2, SIGXCPU};
/// Other signals that a batch system can be configured to send and that this program does not use
/// otherwise.
constexpr std::array kFurther{SIGQUIT, SIGALRM, SIGCONT, SIGURG, SIGPWR, SIGVTALRM, SIGIO};

template <class List>
bool has(const List& list, int signal) {
  return std::ranges::find(list, signal) != list.end();
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

int signal_of(std::string name) {
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* known = sigabbrev_np(signal);
    const bool usable =
        has(kInsistent, signal) || has(kAnnouncing, signal) || has(kFurther, signal);
    if (known != nullptr && name == known && usable) return signal;
  }
  throw ConfigError("--stop-signals: expected signal names such as " +
                    std::string(kDefaultStopSignals) + ", got \"" + name +
                    "\", which is unknown or not allowed");
}

}  // namespace

std::vector<int> read_stop_signals(const std::string& list) {
  std::vector<int> signals;
  if (list == "none") return signals;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) signals.push_back(signal_of(name));
  return signals;
}

std::string stopping_text(const std::string& signal, const std::string& what) {
  const bool insists = signal == "SIGINT" || signal == "SIGTERM" || signal == "SIGHUP";
  return signal + ": " + what + (insists ? "; a second " + signal : "; SIGINT twice") +
         " ends the process at once";
}

StopSignals::StopSignals(std::function<void(const std::string& signal)> asked,
                         const std::vector<int>& others)
    : asked_(std::move(asked)), wake_up_(SIGRTMIN) {
  ::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&caught_);
  const auto take_up = [&](int signal) {
    if (!is_ignored(signal)) sigaddset(&caught_, signal);
  };
  std::ranges::for_each(kInsistent, take_up);
  std::ranges::for_each(others, take_up);
  for (const int signal : kAnnouncing)
    if (!has(others, signal)) ::signal(signal, SIG_IGN);
  sigaddset(&caught_, wake_up_);
  pthread_sigmask(SIG_BLOCK, &caught_, nullptr);
  thread_ = std::thread([this] { listen(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), wake_up_);
  thread_.join();
}

void StopSignals::listen() {
  while (!ending_) {
    int signal = 0;
    if (sigwait(&caught_, &signal) == 0 && signal != wake_up_) take(signal);
  }
}

/// Only a second SIGINT, SIGTERM or SIGHUP ends the process. A repeated SIGXCPU (the system sends
/// it each second) and a SIGTERM after an announcing signal are not a second request.
void StopSignals::take(int signal) {
  const auto now = std::chrono::steady_clock::now();
  if (has(kInsistent, signal)) {
    if (insisted_ && now - insisted_at_ >= kMoment) ::_exit(1);
    if (!insisted_) insisted_at_ = now;
    insisted_ = true;
  }
  if (come_) return;
  come_ = true;
  asked_(std::string("SIG") + sigabbrev_np(signal));
}

}  // namespace poseidon::apps
