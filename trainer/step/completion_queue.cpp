#include "trainer/step/completion_queue.h"

#include <utility>

namespace poseidon::trainer {

/// The device's reference to a task. If the task's event was never reached, the destructor drops
/// the task.
class CompletionQueue::Ticket {
 public:
  Ticket(CompletionQueue& owner, std::shared_ptr<Task> task)
      : owner_(owner), task_(std::move(task)) {}
  ~Ticket() {
    if (task_ == nullptr) return;
    task_->run = nullptr;
    owner_.come_due(*task_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  void come_due() {
    const std::shared_ptr<Task> task = std::exchange(task_, nullptr);
    owner_.come_due(*task);
  }

 private:
  CompletionQueue& owner_;
  std::shared_ptr<Task> task_;
};

CompletionQueue::~CompletionQueue() {
  MutexLock lock(mutex_);
  while (!tasks_.empty() || running_) changed_.wait(mutex_);
}

void CompletionQueue::add(const Event& when, std::function<void()> task) {
  auto added = std::make_shared<Task>();
  added->run = std::move(task);
  {
    MutexLock lock(mutex_);
    tasks_.push_back(added);
  }
  when.then([ticket = std::make_shared<Ticket>(*this, added)] { ticket->come_due(); });
}

/// Marks `task` as due, and runs the due tasks at the front of the queue. If another thread is
/// running due tasks, leaves the queue to that thread.
void CompletionQueue::come_due(Task& task) {
  mutex_.lock();
  task.is_due = true;
  if (running_) return mutex_.unlock();
  running_ = true;
  while (!tasks_.empty() && tasks_.front()->is_due) {
    const std::shared_ptr<Task> first = std::move(tasks_.front());
    tasks_.pop_front();
    mutex_.unlock();
    (first->run ? first->run : forgotten_)();
    mutex_.lock();
  }
  running_ = false;
  changed_.notify_all();
  mutex_.unlock();
}

}  // namespace poseidon::trainer
