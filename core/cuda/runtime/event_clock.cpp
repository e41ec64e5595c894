#include "core/cuda/runtime/event_clock.h"

#include <cmath>

#include "core/cuda/runtime/call.h"
#include "core/trace.h"

namespace poseidon::cuda {

namespace {

/// Maximum age of the reference event. CUDA returns the time between two events as a float in
/// milliseconds. Its resolution is half a microsecond at 5 s, and coarser for longer times.
constexpr int64_t kKnownForNs = 5'000'000'000;

}  // namespace

/// A reference event, and the time on the host's clock at which the GPU reached it.
struct EventClock::Known {
  Known(int gpu, std::shared_ptr<EventPool> events, cudaStream_t idle)
      : point(gpu, std::move(events), idle, nullptr) {
    point.wait();
    nanoseconds = begin + (TraceRecorder::now() - begin) / 2;
  }

  const int64_t begin = TraceRecorder::now();
  const StreamPoint point;
  int64_t nanoseconds;  ///< midpoint between record and observation on the host
};

class EventClock::TimedPoint final : public Timestamp {
 public:
  TimedPoint(std::shared_ptr<const Known> before, int gpu, std::shared_ptr<EventPool> events,
             cudaStream_t stream, std::shared_ptr<const Operation> last)
      : before_(std::move(before)), point_(gpu, std::move(events), stream, std::move(last)) {}

  bool reached() const override { return point_.reached(); }
  int64_t nanoseconds() const override {
    float milliseconds = 0;
    check_call(cudaEventElapsedTime(&milliseconds, before_->point.event(), point_.event()),
               "cudaEventElapsedTime");
    return before_->nanoseconds + std::llround(double{milliseconds} * 1e6);
  }

 private:
  const std::shared_ptr<const Known> before_;
  const StreamPoint point_;
};

EventClock::~EventClock() {
  if (idle_ != nullptr) static_cast<void>(cudaStreamDestroy(idle_));
}

std::shared_ptr<const Timestamp> EventClock::record_timestamp(
    cudaStream_t stream, std::shared_ptr<const Operation> last) {
  return std::make_shared<TimedPoint>(latest(), gpu_, events_, stream, std::move(last));
}

const std::shared_ptr<const EventClock::Known>& EventClock::latest() {
  if (latest_ != nullptr && TraceRecorder::now() - latest_->nanoseconds < kKnownForNs)
    return latest_;
  if (idle_ == nullptr)
    check_call(cudaStreamCreateWithFlags(&idle_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  return latest_ = std::make_shared<Known>(gpu_, events_, idle_);
}

}  // namespace poseidon::cuda
