#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "core/device.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Completion queue: runs tasks after events of a device, in the order of add(). The device may
/// signal two events in any order and in any of its threads.
class CompletionQueue {
 public:
  /// The queue calls `forgotten` in place of each dropped task (see add()), in any thread.
  explicit CompletionQueue(std::function<void()> forgotten = [] {})
      : forgotten_(std::move(forgotten)) {}
  /// Waits until all tasks have run or are dropped.
  ~CompletionQueue();

  /// Runs `task` once `when` is reached and all earlier tasks have run or are dropped. `task` runs
  /// in a thread that calls add() or in a thread of the device. It must not throw. If the device
  /// fails and drops the event's callback, the task is dropped.
  void add(const Event& when, std::function<void()> task);

 private:
  struct Task {
    std::function<void()> run;  ///< null: the task was dropped
    bool is_due = false;
  };
  class Ticket;

  void come_due(Task& task);

  const std::function<void()> forgotten_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::shared_ptr<Task>> tasks_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;  ///< a thread is running due tasks
};

}  // namespace poseidon::trainer
