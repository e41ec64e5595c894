#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/cuda/runtime/events.h"
#include "core/device.h"

namespace poseidon::cuda {

/// Tells when a GPU came to points of its streams, by the host's clock. Events know the time
/// between two of them, so one is placed now and then in a stream that is idle, where the host sees
/// it pass: other streams are not held up.
class EventClock {
 public:
  explicit EventClock(int gpu) : gpu_(gpu) {}
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  /// The end of what was issued to `stream` so far; `last` is the newest of it, for messages.
  std::shared_ptr<const Moment> moment(cudaStream_t stream, std::shared_ptr<const Operation> last);

 private:
  struct Known;
  class TimedPoint;

  const std::shared_ptr<const Known>& latest();

  const int gpu_;
  const std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>(cudaEventBlockingSync);
  cudaStream_t idle_ = nullptr;
  std::shared_ptr<const Known> latest_;
};

}  // namespace poseidon::cuda
