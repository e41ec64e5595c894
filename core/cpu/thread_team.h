#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "core/cpu/team_helper.h"

namespace poseidon::cpu {

/// Threads that compute the tasks of one call together: the calling thread and helper threads.
///
/// A call returns as soon as all tasks are complete. It does not wait for a helper that has no
/// task, because the system may run another process on that helper's core for milliseconds. If the
/// system interrupts a helper within a task, the caller must wait. Then that helper pauses, and
/// later calls use the other threads. TeamHelper has the rules. So two threads are not slower than
/// one on a busy machine.
///
/// The tasks of a call are divided among the threads in ranges of neighbors, so that a thread
/// usually reads its own results of the previous call. A thread whose range is done takes tasks of
/// other ranges. The choice of the threads must not change results.
class ThreadTeam {
 public:
  /// Starts `threads` - 1 helpers. They have all signals blocked.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return threads_; }

  /// Calls body(task, thread) once for each task from 0 to `count` - 1, in any order. Tasks must
  /// not wait for each other, because one thread may run all of them. `thread` is less than
  /// threads(), and threads that run at the same time have different ones. The calling thread has
  /// 0. A single task runs in the calling thread. So do all tasks of a call that begins during
  /// another call, in one of its tasks or in another thread. After an exception the call starts no
  /// more tasks, and throws one of the exceptions.
  template <class Body>
  void run(int64_t count, const Body& body) {
    run_tasks(count, &body, [](const void* own, int64_t task, int thread) {
      (*static_cast<const Body*>(own))(task, thread);
    });
  }

  /// Divides [0, count) into ranges, and calls body(first, end, thread) for each one. Ranges begin
  /// at multiples of `grain`. The time of `grain` elements should be some microseconds, unless
  /// there are only a few: less work is slower on two threads than on one.
  template <class Body>
  void run_ranges(int64_t count, int64_t grain, const Body& body) {
    const int64_t grains = pieces(count, grain);
    const int64_t range = pieces(grains, kRangesOfThread * threads_) * grain;
    run(pieces(count, range), [&](int64_t task, int thread) {
      body(task * range, std::min(count, (task + 1) * range), thread);
    });
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Call = void (*)(const void* body, int64_t task, int thread);
  /// With more ranges, threads finish at nearly the same time, also if some of them are slow.
  static constexpr int64_t kRangesOfThread = 8;

  /// The tasks of one thread that no thread has started: [end - left, end). The thread that
  /// decrements `left` has the task. Other members of the call may be read only after that, because
  /// the call then cannot end.
  struct alignas(64) Share {
    std::atomic<uint32_t> left = 0;
    int64_t end = 0;
  };

  static int64_t pieces(int64_t whole, int64_t piece) {
    return piece > 0 ? (whole + piece - 1) / piece : 0;
  }
  void run_tasks(int64_t count, const void* body, Call call);
  void run_alone(int64_t count, const void* body, Call call) const;
  /// Ends all helpers.
  void stop();
  /// Sets chosen_ for a call with `count` tasks.
  void choose_helpers(int64_t count);
  void publish(int64_t count, const void* body, Call call);
  /// Runs tasks until none is left. Returns the number of tasks.
  uint32_t work(int thread);
  void run_task(const Share& share, uint32_t left, int thread) noexcept;
  /// Waits until helpers have completed `tasks` tasks.
  void wait_for_helpers(uint32_t tasks) noexcept;
  bool spin_until_complete(uint32_t tasks) const;
  void sleep_until_complete(uint32_t tasks);
  void help(TeamHelper& helper, int thread);
  TeamHelper& helper(int thread) { return *helpers_[static_cast<size_t>(thread) - 1]; }

  const int threads_;
  std::vector<Share> shares_;
  std::vector<std::unique_ptr<TeamHelper>> helpers_;
  std::vector<int> chosen_;  ///< the helpers of a call
  std::atomic_flag in_call_;
  std::atomic<bool> stops_ = false;

  // The current call.
  const void* body_ = nullptr;
  Call call_ = nullptr;
  uint32_t number_ = 0;  ///< the value of calls_ after its change
  std::exception_ptr error_;
  alignas(64) std::atomic<uint32_t> calls_ = 0;  ///< number of calls; helpers wait for a change
  alignas(64) std::atomic<uint32_t> done_ = 0;   ///< tasks of the call that helpers completed
  std::atomic<bool> caller_sleeps_ = false, failed_ = false;
};

}  // namespace poseidon::cpu
