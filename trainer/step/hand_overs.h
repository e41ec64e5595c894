#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "core/device.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Tasks that follow events of a device, in the order in which they were added: a device may come
/// to the tasks of two events in any order, and in any of its threads.
class HandOvers {
 public:
  /// `forgotten` is called, in any thread, for each task that is not run.
  explicit HandOvers(std::function<void()> forgotten = [] {}) : forgotten_(std::move(forgotten)) {}
  /// Waits for all of them.
  ~HandOvers();

  /// Runs `task`, which must not throw, once `when` is reached and all earlier tasks are done: in
  /// this thread or in one of the device's. Where the device fails and forgets what was to follow
  /// the event, the task is not run.
  void add(const Event& when, std::function<void()> task);

 private:
  struct Task {
    std::function<void()> run;  ///< null: it was forgotten
    bool is_due = false;
  };
  class Ticket;

  void come_due(Task& task);

  const std::function<void()> forgotten_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::shared_ptr<Task>> tasks_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;  ///< some thread does what is due
};

}  // namespace poseidon::trainer
