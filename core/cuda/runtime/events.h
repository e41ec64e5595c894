#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "core/cuda/operation.h"
#include "core/mutex.h"

namespace poseidon::cuda {

/// CUDA's events, which are costly to make, for reuse. Any thread may use it.
class EventPool {
 public:
  /// Of events of these flags of CUDA's.
  explicit EventPool(unsigned flags) : flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  cudaEvent_t take();
  void give_back(cudaEvent_t event) noexcept;

 private:
  const unsigned flags_;
  Mutex mutex_;
  size_t made_ GUARDED_BY(mutex_) = 0;
  std::vector<cudaEvent_t> free_ GUARDED_BY(mutex_);
};

/// A point of a stream that an event stands at. Any thread may use it.
class StreamPoint {
 public:
  /// `last` is what was issued there last, for messages; null: nothing yet.
  StreamPoint(int gpu, std::shared_ptr<EventPool> pool, cudaStream_t stream,
              std::shared_ptr<const Operation> last);
  ~StreamPoint() { pool_->give_back(event_); }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  cudaEvent_t event() const { return event_; }
  bool reached() const;
  /// Sleeps until it is reached. Throws RunError when the work before it failed.
  void wait() const;

 private:
  const int gpu_;
  const std::shared_ptr<EventPool> pool_;
  const std::shared_ptr<const Operation> last_;
  const cudaEvent_t event_;
};

/// Throws RunError unless a call to a GPU succeeded. Kernels fail later than they are issued, so it
/// names what was issued last too.
void check_work(cudaError_t result, const char* call, int gpu, const Operation* last);

}  // namespace poseidon::cuda
