#include "core/cuda/runtime/events.h"

#include "core/cuda/runtime/call.h"

namespace poseidon::cuda {

void check_work(cudaError_t result, const char* call, int gpu, const Operation* last) {
  if (result == cudaSuccess) return;
  const std::string issued =
      last == nullptr ? "" : text("; the last operation issued was '", last->name(), "'");
  const std::string what = text("GPU ", gpu, ": ", call, ": ", text_of(result), issued);
  if (result == cudaErrorMemoryAllocation) throw OutOfMemory("out of memory: " + what);
  throw RunError(what);
}

EventPool::~EventPool() {
  for (const cudaEvent_t event : free_) static_cast<void>(cudaEventDestroy(event));
}

void EventPool::add(size_t count) {
  for (; count > 0; --count) release(make());
}

cudaEvent_t EventPool::acquire() {
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      const cudaEvent_t event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return make();
}

/// Creates the event without holding the lock, because the slow creation would delay other threads.
cudaEvent_t EventPool::make() {
  {
    MutexLock lock(mutex_);
    free_.reserve(++made_);  // so that release() does not allocate
  }
  cudaEvent_t event = nullptr;
  check_call(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags");
  return event;
}

void EventPool::release(cudaEvent_t event) noexcept {
  MutexLock lock(mutex_);
  free_.push_back(event);
}

StreamPoint::StreamPoint(int gpu, std::shared_ptr<EventPool> pool, cudaStream_t stream,
                         std::shared_ptr<const Operation> last)
    : gpu_(gpu), pool_(std::move(pool)), last_(std::move(last)), event_(pool_->acquire()) {
  const cudaError_t result = cudaEventRecord(event_, stream);
  if (result == cudaSuccess) return;
  pool_->release(event_);
  check_work(result, "cudaEventRecord", gpu_, last_.get());
}

bool StreamPoint::reached() const {
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    // Some releases of the runtime store this result as an error that the next launch reports.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check_work(result, "cudaEventQuery", gpu_, last_.get());
  return true;
}

void StreamPoint::wait() const {
  check_work(cudaEventSynchronize(event_), "cudaEventSynchronize", gpu_, last_.get());
}

}  // namespace poseidon::cuda
