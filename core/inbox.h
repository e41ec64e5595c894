#pragma once

#include <chrono>
#include <deque>
#include <functional>

#include "core/mutex.h"

namespace poseidon {

/// A queue of tasks for one thread. Other threads post tasks; the thread runs them in order.
class Inbox {
 public:
  using Clock = std::chrono::steady_clock;

  /// Called from any thread.
  void post(std::function<void()> task) {
    {
      MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    filled_.notify_one();
  }

  /// Runs the next task and returns true. If there is none, waits for one until `deadline`. Returns
  /// false if none arrives in time.
  bool run_one(Clock::time_point deadline) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty())
        if (!filled_.wait_until(mutex_, deadline) && tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

 private:
  Mutex mutex_;
  Condition filled_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
};

}  // namespace poseidon
