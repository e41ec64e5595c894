#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <thread>

namespace poseidon::cpu {

/// Tells the processor that this thread waits in a loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// One thread of a ThreadTeam besides the calling thread. The caller of a call is any thread, one
/// at a time.
///
/// A helper waits for the next call: it spins for kSpin, so that calls that follow each other start
/// quickly, and then sleeps. While other processes use the cores, a helper may do harm: the system
/// interrupts it within a task, or runs it too late for most calls, in place of the caller. Then it
/// pauses: it sleeps, and gets no tasks. The pauses become longer if that happens again soon, up to
/// kLongest. So the attempts cost about a percent of the time, and an otherwise idle machine uses
/// all helpers nearly all the time.
class TeamHelper {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the thread, with all signals blocked. It calls run(*this).
  explicit TeamHelper(std::function<void(TeamHelper&)> run);

  // Called by the caller:

  /// False while the helper pauses. Ends a pause whose time is over.
  bool may_help() { return !pauses_.load(std::memory_order_relaxed) || resume(); }
  /// Wakes the thread if it sleeps.
  void wake();
  /// Whether the thread may have a task that is not complete.
  bool works() const { return works_.load(std::memory_order_relaxed); }
  /// The processor time that the thread has used.
  std::chrono::nanoseconds processor_time() const;
  void pause();
  /// Pauses the helper if it took no task in most calls, for a total of kMostAbsence. `call` is the
  /// number of a call that chose the helper, and `time` its duration.
  void judge(uint32_t call, Clock::duration time);

  // Called by the thread:

  /// Blocks until `calls` differs from `seen`. A pause delays the return, unless `stops` is set.
  void wait_for_call(const std::atomic<uint32_t>& calls, uint32_t seen,
                     const std::atomic<bool>& stops);
  void set_works(bool works) { works_.store(works, std::memory_order_relaxed); }
  /// Records that the thread has a task of the call with this number.
  void set_call(uint32_t call) { call_.store(call, std::memory_order_relaxed); }

 private:
  static constexpr auto kSpin = std::chrono::microseconds(200);
  static constexpr auto kShortest = std::chrono::milliseconds(8), kLongest = kShortest * 16;
  /// An interruption later than this after the last pause is the first one again.
  static constexpr auto kSoon = std::chrono::milliseconds(100);
  /// Much longer than the time that a sleeping thread needs to wake on an idle core.
  static constexpr Clock::duration kMostAbsence = std::chrono::milliseconds(10);

  bool resume();
  bool spin(const std::atomic<uint32_t>& calls, uint32_t seen) const;

  alignas(64) std::atomic<uint32_t> sleeps_ = 0;  ///< 1: the thread sleeps, or is about to
  std::atomic<bool> pauses_ = false, works_ = false;
  std::atomic<uint32_t> call_ = 0;  ///< number of the last call of which the thread had a task

  // Only the caller uses these.
  alignas(64) Clock::duration pause_{}, absence_{};
  Clock::time_point resumed_{}, end_of_pause_{};

  clockid_t processor_clock_{};
  std::jthread thread_;
};

}  // namespace poseidon::cpu
