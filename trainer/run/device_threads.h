#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace poseidon::trainer {

/// A compute thread for each device of a worker, in which all of the device's objects are made,
/// used and destroyed. That of the first device is the one that calls, which is always the same.
class DeviceThreads {
 public:
  /// What is done for a device, by its number.
  using Task = std::function<void(size_t device)>;

  explicit DeviceThreads(size_t devices);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  size_t count() const { return others_.size() + 1; }
  /// Does the task for all devices from `first` on at once, and returns when all are through, by
  /// the error that came first where there was one.
  void run(const Task& task, size_t first = 0);
  /// `failed` is told why when a task ends by an error, in its thread: others may wait for what it
  /// will not do any more.
  void on_failure(std::function<void(const std::string& why)> failed) {
    failed_ = std::move(failed);
  }

 private:
  void live(size_t device);
  bool next(uint64_t& round);
  void attempt(size_t device);

  std::function<void(const std::string&)> failed_ = [](const std::string&) {};
  const Task* task_ = nullptr;  ///< of the round, as the next one
  size_t first_ = 0;
  Mutex mutex_;
  Condition changed_;
  uint64_t round_ GUARDED_BY(mutex_) = 0;
  size_t busy_ GUARDED_BY(mutex_) = 0;  ///< other threads that are not through
  bool ends_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::vector<std::thread> others_;
};

}  // namespace poseidon::trainer
