#pragma once

#include "comm/step/step_limit.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// comm::StepLimit between the compute thread, which begins steps, and the I/O thread, which
/// promises.
class StepLimit {
 public:
  StepLimit(int64_t done, int64_t last) : limit_(done, last) {}

  /// The compute thread asks for the step after `done` ones; waits while it is not decided yet how
  /// far the job goes. False: there is none.
  bool begin(int64_t done) {
    MutexLock lock(mutex_);
    comm::StepLimit::Next next = limit_.next(done);
    while (next == comm::StepLimit::Next::kWait) {
      changed_.wait(mutex_);
      next = limit_.next(done);
    }
    return next == comm::StepLimit::Next::kBegin;
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
