#include "core/cpu/team_waits.h"

#include <omp.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "core/core_use.h"

namespace poseidon::cpu {

namespace {

constexpr auto kLook = std::chrono::milliseconds(250);
/// Of cores, that other processes use: from where on they are in the way, and until when.
constexpr double kMany = 0.25, kFew = 0.12;
/// Of cores: there is room for others where so many are idle.
constexpr double kRoom = 0.75;

/// Signals are for threads that know what to do with them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// A second team of threads, which sleep. GCC's library counts the threads of all teams, and where
/// they are more than the cores it lets all of them spin for a hundred rounds only (libgomp's
/// manual, GOMP_SPINCOUNT). It has no other way to change that in a running program.
class SleepingTeam {
 public:
  SleepingTeam()
      : thread_([this](const std::stop_token& stop) {
// A region with nothing in it would be left out.
#pragma omp parallel num_threads(omp_get_num_procs())
          asm volatile("");
          std::unique_lock lock(mutex_);
          ended_.wait(lock, stop, [] { return false; });
        }) {
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  ///< its team ends with it
};

bool told_how_to_wait() {
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

}  // namespace

TeamWaits::TeamWaits() {
  if (told_how_to_wait()) return;
  const BlockedSignals blocked;
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

TeamWaits::~TeamWaits() = default;

void TeamWaits::watch(const std::stop_token& stop) {
  CoreUseMeter meter;
  std::optional<SleepingTeam> sleeping;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) {
    const std::optional<CoreUse> use = meter.since_last();
    if (!use) continue;
    const bool crowded = use->idle < kRoom && use->others > (sleeping ? kFew : kMany);
    if (crowded && !sleeping) sleeping.emplace();
    if (!crowded) sleeping.reset();
  }
}

}  // namespace poseidon::cpu
