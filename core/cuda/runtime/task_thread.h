#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "core/cuda/runtime/events.h"

namespace poseidon::cuda {

/// A thread that runs each task after a position in a stream is reached. The thread runs tasks in
/// the order of submission. Therefore all tasks should belong to one stream: a task for a busy
/// stream would delay later tasks for other streams. The thread starts with the first task. Any
/// thread may submit tasks.
class TaskThread {
 public:
  explicit TaskThread(int gpu) : gpu_(gpu) {}
  ~TaskThread() { end(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  /// Submits a task that runs after `point` is reached. After end(), waits for `point` and runs the
  /// task in the calling thread. After a failure (rethrow_failure), discards the task.
  void run_after(std::shared_ptr<const StreamPoint> point, std::function<void()> task);
  /// Runs all submitted tasks, and ends the thread.
  void end();
  /// Throws the exception of the first task that failed, or of the failed work before a task. After
  /// such a failure, no further task runs. Does nothing without a failure.
  void rethrow_failure();

 private:
  struct Entry {
    std::shared_ptr<const StreamPoint> point;
    std::function<void()> task;
  };

  void run() noexcept;
  void run_all() EXCLUDES(mutex_);

  const int gpu_;
  Mutex mutex_;
  Condition task_added_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::cuda
