#pragma once

#include <algorithm>
#include <cstdint>

#include "core/mutex.h"

namespace poseidon::trainer {

/// How far a worker may go: to the job's end, or to the step that all agree on when a job is told
/// to halt. Between the compute thread, which begins steps, and the I/O thread, which promises.
class StepLimit {
 public:
  /// Counts of steps done: when the job begins, and at its end.
  StepLimit(int64_t done, int64_t last) : begun_(done), limit_(last), last_(last) {}

  /// The compute thread asks for the step after `done` ones; waits where it is not decided yet how
  /// far the job goes. False: there is none.
  bool begin(int64_t done) {
    MutexLock lock(mutex_);
    while (done >= limit_ && limit_ < last_ && !ended_) changed_.wait(mutex_);
    if (ended_ || done >= last_) return false;
    begun_ = done + 1;
    return true;
  }
  /// Promises to begin one more step at most until halt() is called. The number of steps done then.
  int64_t offer() {
    MutexLock lock(mutex_);
    return limit_ = std::min(begun_ + 1, last_);
  }
  void halt(int64_t last) {
    {
      MutexLock lock(mutex_);
      halted_ = last < last_;
      limit_ = last_ = last;
    }
    changed_.notify_all();
  }
  /// No further step: the job has failed.
  void end() {
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }
  bool ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  /// Whether the end is one that halt() has set.
  bool halted() {
    MutexLock lock(mutex_);
    return halted_;
  }
  int64_t begun() {
    MutexLock lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int64_t begun_ GUARDED_BY(mutex_), limit_ GUARDED_BY(mutex_), last_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false, halted_ GUARDED_BY(mutex_) = false;
};

}  // namespace poseidon::trainer
