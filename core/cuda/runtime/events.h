#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "core/cuda/operation.h"
#include "core/mutex.h"

namespace poseidon::cuda {

/// A pool of CUDA events for reuse, because their creation is slow. Any thread may use it.
class EventPool {
 public:
  /// `flags` are CUDA's flags for the events.
  explicit EventPool(unsigned flags) : flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Creates `count` events for the current GPU, for later calls of acquire().
  void add(size_t count);
  cudaEvent_t acquire();
  void release(cudaEvent_t event) noexcept;

 private:
  cudaEvent_t make();

  const unsigned flags_;
  Mutex mutex_;
  size_t made_ GUARDED_BY(mutex_) = 0;
  std::vector<cudaEvent_t> free_ GUARDED_BY(mutex_);
};

/// A position in a stream, marked by an event. Any thread may use it.
class StreamPoint {
 public:
  /// Records the event. `last` is the most recent operation in the stream, for messages; null:
  /// none.
  StreamPoint(int gpu, std::shared_ptr<EventPool> pool, cudaStream_t stream,
              std::shared_ptr<const Operation> last);
  ~StreamPoint() { pool_->release(event_); }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  cudaEvent_t event() const { return event_; }
  bool reached() const;
  /// Blocks until the position is reached. Throws RunError if the work before it failed.
  void wait() const;

 private:
  const int gpu_;
  const std::shared_ptr<EventPool> pool_;
  const std::shared_ptr<const Operation> last_;
  const cudaEvent_t event_;
};

/// Throws OutOfMemory or RunError if a call to a GPU failed. The error of a kernel appears in a
/// later call, so the message also names the last operation issued.
void check_work(cudaError_t result, const char* call, int gpu, const Operation* last);

}  // namespace poseidon::cuda
