#include "trainer/step/hand_overs.h"

namespace poseidon::trainer {

HandOvers::~HandOvers() {
  MutexLock lock(mutex_);
  while (!tasks_.empty() || running_) changed_.wait(mutex_);
}

void HandOvers::add(const Event& when, std::function<void()> task) {
  auto added = std::make_shared<Task>();
  added->run = std::move(task);
  {
    MutexLock lock(mutex_);
    tasks_.push_back(added);
  }
  when.then([this, added] { come_due(*added); });
}

/// Where another thread is at it, it does this one too.
void HandOvers::come_due(Task& task) {
  mutex_.lock();
  task.is_due = true;
  if (running_) return mutex_.unlock();
  running_ = true;
  while (!tasks_.empty() && tasks_.front()->is_due) {
    const std::shared_ptr<Task> first = std::move(tasks_.front());
    tasks_.pop_front();
    mutex_.unlock();
    first->run();
    mutex_.lock();
  }
  running_ = false;
  changed_.notify_all();
  mutex_.unlock();
}

}  // namespace poseidon::trainer
