#include "apps/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>

namespace poseidon::apps {

namespace {

constexpr auto kMoment = std::chrono::seconds(1);
constexpr int kWakeUp = SIGUSR1;  ///< of the listening thread, at its end

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(std::function<void(const std::string& signal)> asked)
    : asked_(std::move(asked)) {
  ::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&caught_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&caught_, signal);
  sigaddset(&caught_, kWakeUp);
  pthread_sigmask(SIG_BLOCK, &caught_, nullptr);
  thread_ = std::thread([this] { listen(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), kWakeUp);
  thread_.join();
}

void StopSignals::listen() {
  while (!ending_) {
    int signal = 0;
    if (sigwait(&caught_, &signal) == 0 && signal != kWakeUp) take(signal);
  }
}

void StopSignals::take(int signal) {
  const auto now = std::chrono::steady_clock::now();
  if (come_ && now - first_ >= kMoment) ::_exit(1);
  if (come_) return;
  first_ = now;
  come_ = true;
  asked_(std::string("SIG") + sigabbrev_np(signal));
}

}  // namespace poseidon::apps
