#include "core/cuda/runtime/runtime_driver.h"

#include <cstring>

#include "core/cuda/runtime/call.h"
#include "core/cuda/runtime/gpus.h"
#include "core/memory.h"

namespace poseidon::cuda {

namespace {

/// Has work of a GPU done before what follows; what failed is told to who issues work.
void finish_work(int gpu) noexcept {
  static_cast<void>(cudaSetDevice(gpu));
  static_cast<void>(cudaDeviceSynchronize());
}

}  // namespace

class RuntimeDriver::RuntimeMark final : public Mark {
 public:
  RuntimeMark(std::shared_ptr<const StreamPoint> point, std::shared_ptr<TaskThread> tasks)
      : point_(std::move(point)), tasks_(std::move(tasks)) {}

  cudaEvent_t event() const { return point_->event(); }
  bool reached() const override { return point_->reached(); }
  void wait() const override { point_->wait(); }
  void then(std::function<void()> task) const override {
    tasks_->run_behind(point_, std::move(task));
  }

 private:
  const std::shared_ptr<const StreamPoint> point_;
  const std::shared_ptr<TaskThread> tasks_;
};

RuntimeDriver::RuntimeDriver(int index) : index_(index) { use_gpu(index); }

RuntimeDriver::~RuntimeDriver() {
  for (const Lane& lane : lanes_) lane.tasks->end();
  finish_work(index_);
  for (const Lane& lane : lanes_) static_cast<void>(cudaStreamDestroy(lane.stream));
}

Buffer RuntimeDriver::allocate(size_t bytes, Place place, std::string_view purpose) {
  if (bytes == 0) return {};
  return place == Place::kDevice ? device_memory(bytes, purpose) : staging_memory(bytes, purpose);
}

Buffer RuntimeDriver::device_memory(size_t bytes, std::string_view purpose) const {
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) out_of_memory(bytes, purpose, "on it");
  check_call(result, "cudaMalloc");
  Buffer buffer(data, bytes, [gpu = index_](void* memory, size_t) {
    finish_work(gpu);
    static_cast<void>(cudaFree(memory));
  });
  check_call(cudaMemset(data, 0, bytes), "cudaMemset");
  // Streams of ours do not wait for the one that this is done in.
  check_call(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return buffer;
}

Buffer RuntimeDriver::staging_memory(size_t bytes, std::string_view purpose) const {
  void* data = nullptr;
  const cudaError_t result = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (result == cudaErrorMemoryAllocation) out_of_memory(bytes, purpose, "of the host beside it");
  check_call(result, "cudaHostAlloc");
  std::memset(data, 0, bytes);
  return Buffer(data, bytes, [gpu = index_](void* memory, size_t) {
    finish_work(gpu);
    static_cast<void>(cudaFreeHost(memory));
  });
}

void RuntimeDriver::out_of_memory(size_t bytes, std::string_view purpose, const char* where) const {
  static_cast<void>(cudaGetLastError());  // it is told here, and later calls have not failed
  size_t free = 0, all = 0;
  static_cast<void>(cudaMemGetInfo(&free, &all));
  throw OutOfMemory(text("out of memory: GPU ", index_, ": ", bytes_text(bytes), " ", where,
                         " for ", purpose, " cannot be had; ", bytes_text(free), " of its ",
                         bytes_text(all), " are free"));
}

size_t RuntimeDriver::available() const {
  size_t free = 0, all = 0;
  check_call(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

Stream RuntimeDriver::make_stream(Urgency urgency) {
  int least = 0, greatest = 0;
  check_call(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  lanes_.reserve(lanes_.size() + 1);
  Lane lane{.stream = nullptr, .last = nullptr, .tasks = std::make_shared<TaskThread>(index_)};
  check_call(cudaStreamCreateWithPriority(&lane.stream, cudaStreamNonBlocking,
                                          urgency == Urgency::kHigh ? greatest : least),
             "cudaStreamCreateWithPriority");
  lanes_.push_back(std::move(lane));
  return static_cast<Stream>(lanes_.size() - 1);
}

void RuntimeDriver::checked(const Lane& lane, cudaError_t result, const char* call) const {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  check_work(result, call, index_, lane.last.get());
}

void RuntimeDriver::issue(Stream stream, std::unique_ptr<const Operation> operation) {
  Lane& to = lane(stream);
  to.last = std::move(operation);
  to.last->issue({.stream = to.stream, .host = nullptr});
  checked(to, cudaPeekAtLastError(), "launch");
}

void RuntimeDriver::copy(Stream stream, const void* from, void* to, size_t bytes) {
  const Lane& in = lane(stream);
  checked(in, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, in.stream), "cudaMemcpyAsync");
}

std::shared_ptr<const Mark> RuntimeDriver::record(Stream stream) {
  const Lane& of = lane(stream);
  of.tasks->rethrow_failure();
  return std::make_shared<RuntimeMark>(
      std::make_shared<StreamPoint>(index_, events_, of.stream, of.last), of.tasks);
}

void RuntimeDriver::wait(Stream stream, const std::shared_ptr<const Mark>& mark) {
  const Lane& in = lane(stream);
  const auto& point = static_cast<const RuntimeMark&>(*mark);
  checked(in, cudaStreamWaitEvent(in.stream, point.event(), cudaEventWaitDefault),
          "cudaStreamWaitEvent");
}

}  // namespace poseidon::cuda
