#include "core/cuda/runtime/task_thread.h"

#include <utility>

#include "core/cuda/runtime/call.h"

namespace poseidon::cuda {

void TaskThread::run_after(std::shared_ptr<const StreamPoint> point, std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (failure_) return;
    if (!ends_) {
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      entries_.push_back({std::move(point), std::move(task)});
      task_added_.notify_one();
      return;
    }
  }
  point->wait();
  task();
}

void TaskThread::end() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    task_added_.notify_one();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void TaskThread::rethrow_failure() {
  MutexLock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void TaskThread::run() noexcept {
  try {
    check_call(cudaSetDevice(gpu_), "cudaSetDevice");
    run_all();
  } catch (...) {
    // Discard the remaining tasks: after failed work, the memory that they read is not valid.
    std::deque<Entry> forgotten;
    MutexLock lock(mutex_);
    failure_ = std::current_exception();
    forgotten.swap(entries_);
  }
}

void TaskThread::run_all() {
  for (;;) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      while (entries_.empty() && !ends_) task_added_.wait(mutex_);
      if (entries_.empty()) return;
      entry = std::move(entries_.front());
      entries_.pop_front();
    }
    entry.point->wait();
    entry.task();
  }
}

}  // namespace poseidon::cuda
