#include "trainer/member/exit_watchdog.h"

namespace poseidon::trainer {

namespace {

// A wait of one tick subtracts at most kMostForAWatchTick from the period. If a wait lasts much
// longer than requested, the process was stopped, and that time does not count.
constexpr auto kWatchTick = std::chrono::milliseconds(100);
constexpr auto kMostForAWatchTick = 2 * kWatchTick;

}  // namespace

ExitWatchdog::ExitWatchdog(OnTimeout on_timeout) : on_timeout_(std::move(on_timeout)) {
  if (on_timeout_) thread_ = std::thread([this] { watch(); });
}

ExitWatchdog::~ExitWatchdog() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExitWatchdog::arm(Clock::duration period, std::string why) {
  {
    MutexLock lock(mutex_);
    left_ = period;
    why_ = std::move(why);
  }
  changed_.notify_all();
}

void ExitWatchdog::disarm() {
  MutexLock lock(mutex_);
  left_.reset();
}

/// Waits for a change or one tick, and subtracts the elapsed time from `left_`. If arm() is called
/// during the wait, the elapsed time is subtracted from the new period.
void ExitWatchdog::wait_a_while() {
  if (!left_) return changed_.wait(mutex_);
  const auto begin = Clock::now();
  changed_.wait_until(mutex_, begin + std::min<Clock::duration>(*left_, kWatchTick));
  if (left_) *left_ -= std::min<Clock::duration>(Clock::now() - begin, kMostForAWatchTick);
}

void ExitWatchdog::watch() {
  std::string why;
  {
    MutexLock lock(mutex_);
    while (!over_ && !(left_ && *left_ <= Clock::duration{0})) wait_a_while();
    if (over_) return;
    why = why_;
  }
  on_timeout_(why);
}

}  // namespace poseidon::trainer
