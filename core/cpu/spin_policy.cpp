#include "core/cpu/spin_policy.h"

#include <omp.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "core/cpu_usage.h"

namespace poseidon::cpu {

namespace {

constexpr auto kLook = std::chrono::milliseconds(250);
/// Cores used by other processes. Teams start to sleep above kMany and spin again below kFew.
constexpr double kMany = 0.25, kFew = 0.12;
/// If at least this many cores are idle, teams may spin: other processes have enough cores.
constexpr double kRoom = 0.75;

/// While this object exists, threads that the calling thread starts have all signals blocked. The
/// system then delivers signals to threads that were started earlier or later.
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

/// A second OpenMP team, with one sleeping thread for each core. GCC's library counts the threads
/// of all teams. If there are more threads than cores, all teams spin for only a hundred rounds
/// (libgomp's manual, GOMP_SPINCOUNT). A running program has no other way to shorten the spinning.
class SleepingTeam {
 public:
  SleepingTeam()
      : thread_([this](const std::stop_token& stop) {
// The compiler would remove an empty region.
#pragma omp parallel num_threads(omp_get_num_procs())
          asm volatile("");
          std::unique_lock lock(mutex_);
          ended_.wait(lock, stop, [] { return false; });
        }) {
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  ///< the second team ends with this thread
};

bool told_how_to_wait() {
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

}  // namespace

SpinPolicy::SpinPolicy() {
  if (told_how_to_wait()) return;
  const BlockedSignals blocked;
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

SpinPolicy::~SpinPolicy() = default;

void SpinPolicy::watch(const std::stop_token& stop) {
  CpuUsageMeter meter;
  std::optional<SleepingTeam> sleeping;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) {
    const std::optional<CpuUsage> use = meter.since_last();
    if (!use) continue;
    const bool crowded = use->idle < kRoom && use->others > (sleeping ? kFew : kMany);
    if (crowded && !sleeping) sleeping.emplace();
    if (!crowded) sleeping.reset();
  }
}

}  // namespace poseidon::cpu
