#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "core/cuda/runtime/events.h"

namespace poseidon::cuda {

/// A thread that runs tasks, each once a point of a stream is reached, in the order in which they
/// were given: those of one stream, or they would hold up one another. It begins with the first
/// task. Any thread may give tasks.
class TaskThread {
 public:
  explicit TaskThread(int gpu) : gpu_(gpu) {}
  ~TaskThread() { end(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  /// Once it has ended, waits and runs the task itself.
  void run_behind(std::shared_ptr<const StreamPoint> point, std::function<void()> task);
  /// Runs what it was given, and ends.
  void end();
  /// Throws what ended the thread early, which runs no task from then on: work that failed, or a
  /// task.
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
  Condition given_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::cuda
