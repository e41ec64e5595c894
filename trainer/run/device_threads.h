#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace poseidon::trainer {

/// Compute threads, one for each device of a worker. All objects of a device are created, used and
/// destroyed in its thread. The first device uses the calling thread, which must always be the
/// same.
class DeviceThreads {
 public:
  /// A task for a device, by its index.
  using Task = std::function<void(size_t device)>;

  explicit DeviceThreads(size_t devices);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  size_t count() const { return others_.size() + 1; }
  /// Runs the task in parallel for all devices from `first` on. Returns after all have ended;
  /// rethrows the first exception.
  void run(const Task& task, size_t first = 0);
  /// Sets the function that a thread calls with the reason when its task throws. `failed` must wake
  /// threads that wait for data from the failed device.
  void on_failure(std::function<void(const std::string& why)> failed) {
    failed_ = std::move(failed);
  }

 private:
  void live(size_t device);
  bool next(uint64_t& round);
  void attempt(size_t device);

  std::function<void(const std::string&)> failed_ = [](const std::string&) {};
  const Task* task_ = nullptr;  ///< of the current call of run()
  size_t first_ = 0;
  Mutex mutex_;
  Condition changed_;
  uint64_t round_ GUARDED_BY(mutex_) = 0;
  size_t busy_ GUARDED_BY(mutex_) = 0;  ///< number of `others_` that are still running the task
  bool ends_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::vector<std::thread> others_;
};

}  // namespace poseidon::trainer
