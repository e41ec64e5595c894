#include "trainer/run/device_threads.h"

#include <utility>

#include "core/failure.h"

namespace poseidon::trainer {

DeviceThreads::DeviceThreads(size_t devices) {
  for (size_t device = 1; device < devices; ++device)
    others_.emplace_back([this, device] { live(device); });
}

DeviceThreads::~DeviceThreads() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& other : others_) other.join();
}

void DeviceThreads::run(const Task& task, size_t first) {
  task_ = &task;
  first_ = first;
  {
    MutexLock lock(mutex_);
    ++round_;
    busy_ = others_.size();
  }
  changed_.notify_all();
  attempt(0);
  MutexLock lock(mutex_);
  while (busy_ > 0) changed_.wait(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void DeviceThreads::live(size_t device) {
  for (uint64_t round = 0; next(round);) {
    attempt(device);
    MutexLock lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

/// Waits for the next round, that is, the next call of run(). Returns false if no round follows.
bool DeviceThreads::next(uint64_t& round) {
  MutexLock lock(mutex_);
  while (round_ == round && !ends_) changed_.wait(mutex_);
  if (ends_) return false;
  ++round;
  return true;
}

void DeviceThreads::attempt(size_t device) {
  if (device < first_) return;
  try {
    (*task_)(device);
  } catch (...) {
    {
      MutexLock lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
    failed_(message_of(std::current_exception()));
  }
}

}  // namespace poseidon::trainer
