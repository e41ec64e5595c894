#pragma once

#include "comm/step/step_limit.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Thread-safe comm::StepLimit. The compute thread calls begin(). The I/O thread calls the
/// functions with which the coordinator limits the steps.
class StepLimit {
 public:
  StepLimit(int64_t done, int64_t last) : limit_(done, last) {}

  using Next = comm::StepLimit::Next;

  /// Requests the step after `done` steps. Blocks while it is not decided whether the job makes
  /// that step. Never returns kWait.
  Next begin(int64_t done) {
    MutexLock lock(mutex_);
    Next next = limit_.next(done);
    while (next == Next::kWait) {
      changed_.wait(mutex_);
      next = limit_.next(done);
    }
    return next;
  }
  /// Waits until end() is called.
  void await_end() {
    MutexLock lock(mutex_);
    while (!limit_.ended()) changed_.wait(mutex_);
  }
  int64_t offer() {
    MutexLock lock(mutex_);
    return limit_.offer();
  }
  void halt(int64_t last) {
    {
      MutexLock lock(mutex_);
      limit_.halt(last);
    }
    changed_.notify_all();
  }
  void pause(int64_t step) {
    {
      MutexLock lock(mutex_);
      limit_.pause(step);
    }
    changed_.notify_all();
  }
  void end() {
    {
      MutexLock lock(mutex_);
      limit_.end();
    }
    changed_.notify_all();
  }
  bool ended() {
    MutexLock lock(mutex_);
    return limit_.ended();
  }
  bool halted() {
    MutexLock lock(mutex_);
    return limit_.halted();
  }
  int64_t begun() {
    MutexLock lock(mutex_);
    return limit_.begun();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  comm::StepLimit limit_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
