#include "core/cpu/team_helper.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace poseidon::cpu {

namespace {

/// While this object exists, threads that the calling thread starts have all signals blocked. The
/// system then delivers signals to other threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

TeamHelper::TeamHelper(std::function<void(TeamHelper&)> run) {
  const NoSignals blocked;
  thread_ = std::jthread([this, run = std::move(run)] { run(*this); });
  pthread_getcpuclockid(thread_.native_handle(), &processor_clock_);
}

bool TeamHelper::resume() {
  const auto now = Clock::now();
  if (now < end_of_pause_) return false;
  resumed_ = now;
  pauses_ = false;
  return true;
}

void TeamHelper::pause() {
  const auto now = Clock::now();
  const bool soon = now - resumed_ < std::max<Clock::duration>(kSoon, pause_);
  pause_ = soon ? std::clamp<Clock::duration>(4 * pause_, kShortest, kLongest) : kShortest;
  end_of_pause_ = now + pause_;
  absence_ = {};
  pauses_ = true;
}

void TeamHelper::judge(uint32_t call, Clock::duration time) {
  if (call_.load(std::memory_order_relaxed) == call)
    absence_ = std::max(Clock::duration{}, absence_ - time);
  else
    absence_ += time;
  if (absence_ > kMostAbsence) pause();
}

std::chrono::nanoseconds TeamHelper::processor_time() const {
  timespec time{};
  clock_gettime(processor_clock_, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void TeamHelper::wake() {
  if (sleeps_.load() == 1 && sleeps_.exchange(0) == 1) sleeps_.notify_one();
}

bool TeamHelper::spin(const std::atomic<uint32_t>& calls, uint32_t seen) const {
  const auto end = Clock::now() + kSpin;
  while (!pauses_.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 32; ++i) {
      if (calls.load(std::memory_order_acquire) != seen) return true;
      relax();
    }
    if (Clock::now() > end) break;
  }
  return false;
}

void TeamHelper::wait_for_call(const std::atomic<uint32_t>& calls, uint32_t seen,
                               const std::atomic<bool>& stops) {
  const auto returns = [&] { return stops || (!pauses_ && calls != seen); };
  while (!spin(calls, seen) && !returns()) {
    // The caller first changes `calls`, then reads sleeps_. This thread does both in the other
    // order, so one of the two threads sees the other's change.
    sleeps_ = 1;
    if (!returns()) sleeps_.wait(1);
    sleeps_ = 0;
  }
}

}  // namespace poseidon::cpu
