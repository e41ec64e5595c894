#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/cuda/runtime/events.h"
#include "core/device.h"

namespace poseidon::cuda {

/// Converts positions in GPU streams to times of the host's clock. CUDA reports only the time
/// between two events. Therefore this class records a reference event in an idle stream and
/// observes it on the host. After a few seconds it replaces this event, for precision. Other
/// streams are not delayed.
class EventClock {
 public:
  explicit EventClock(int gpu) : gpu_(gpu) {}
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  /// A timestamp at the end of all work issued to `stream` so far. `last` is the most recent
  /// operation in the stream, for messages.
  std::shared_ptr<const Timestamp> record_timestamp(cudaStream_t stream,
                                                    std::shared_ptr<const Operation> last);

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
