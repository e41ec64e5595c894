#pragma once

#include "core/mutex.h"

namespace poseidon::trainer {

/// Counts what was begun in one thread and is to end in another, so that the first can wait until
/// nothing is under way.
class HandOvers {
 public:
  void begin() {
    MutexLock lock(mutex_);
    ++under_way_;
  }
  void end() {
    MutexLock lock(mutex_);
    --under_way_;
    changed_.notify_all();
  }
  void wait() {
    MutexLock lock(mutex_);
    while (under_way_ > 0) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int under_way_ GUARDED_BY(mutex_) = 0;
};

}  // namespace poseidon::trainer
