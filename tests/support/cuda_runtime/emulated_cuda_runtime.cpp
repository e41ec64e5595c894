#include "tests/support/cuda_runtime/emulated_cuda_runtime.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using poseidon::test::emulated_cuda_runtime;

/// Captured work, in the order of capture.
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

/// A stream: a thread that does the stream's work in order.
struct CUstream_st {
  explicit CUstream_st(int owner) : gpu(owner), thread([this] { run(); }) {}
  ~CUstream_st() {
    give(nullptr);
    thread.join();
  }
  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    if (captured) return captured->work.push_back(std::move(work));
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return queue.empty(); });
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !queue.empty(); });
      const std::function<void()> work = queue.front();
      lock.unlock();
      if (!work) return;
      work();
      lock.lock();
      queue.pop_front();
      changed.notify_all();
    }
  }

  const int gpu;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::optional<CUgraph_st> captured;  ///< only during a capture
  bool capture_is_valid = true;
  std::thread thread;
};

/// One recording of an event. A later recording replaces it.
struct Recorded {
  void reach() {
    const std::lock_guard lock(mutex);
    reached = true;
    when = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return reached; });
  }
  bool is_reached() {
    const std::lock_guard lock(mutex);
    return reached;
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::chrono::steady_clock::time_point when;
};

struct CUevent_st {
  std::shared_ptr<Recorded> record() {
    const std::lock_guard lock(mutex);
    return latest = std::make_shared<Recorded>();
  }
  std::shared_ptr<Recorded> recorded() {
    const std::lock_guard lock(mutex);
    return latest;
  }

  std::mutex mutex;
  std::shared_ptr<Recorded> latest;
};

namespace poseidon::test {

namespace {

std::mutex streams_mutex;
std::deque<cudaStream_t> all_streams;

/// The GPU that this thread uses.
thread_local int current_gpu = 0;

cudaError_t said() { return emulated_cuda_runtime().sticky; }

/// Calls that wait for a GPU, allocate or free fail while any thread captures a stream of this GPU,
/// and invalidate the capture.
cudaError_t refused_while_capturing() {
  const std::lock_guard lock(streams_mutex);
  cudaError_t result = cudaSuccess;
  for (const cudaStream_t stream : all_streams) {
    const std::lock_guard lock_stream(stream->mutex);
    if (stream->gpu != current_gpu || !stream->captured) continue;
    stream->capture_is_valid = false;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t take_memory(void** data, size_t bytes) {
  if (refused_while_capturing() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  if (bytes > emulated_cuda_runtime().memory_bytes) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(*data, 0xA5, bytes);
  ++emulated_cuda_runtime().allocations;
  return said();
}

cudaError_t give_memory_back(void* data) {
  const cudaError_t refused = refused_while_capturing();
  std::free(data);
  --emulated_cuda_runtime().allocations;
  return refused != cudaSuccess ? refused : said();
}

}  // namespace

EmulatedCudaRuntime& emulated_cuda_runtime() {
  static EmulatedCudaRuntime cuda;
  return cuda;
}

void EmulatedCudaRuntime::reset() {
  driver_version = 13000;
  gpus = 1;
  memory_bytes = size_t{1} << 30;
  capability = 90;
  launch_error = cudaSuccess;
  graph_error = cudaSuccess;
  free_bytes = 1000000;
  sticky = cudaSuccess;
}

void EmulatedCudaRuntime::launch(cudaStream_t stream, std::function<void()> work) {
  stream->give(std::move(work));
}

}  // namespace poseidon::test

using namespace poseidon::test;

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorMadeUp";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "made up";
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = emulated_cuda_runtime().driver_version;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulated_cuda_runtime().gpus;
  if (emulated_cuda_runtime().driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  std::strcpy(properties->name, index == 0 ? "made-up GPU" : "another GPU");
  properties->totalGlobalMem = emulated_cuda_runtime().memory_bytes;
  properties->major = emulated_cuda_runtime().capability / 10;
  properties->minor = emulated_cuda_runtime().capability % 10;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  current_gpu = gpu;
  return said();
}
cudaError_t cudaDeviceSynchronize() {
  ++emulated_cuda_runtime().device_waits;
  if (refused_while_capturing() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(streams_mutex);
  for (const cudaStream_t stream : all_streams)
    if (stream->gpu == current_gpu) stream->finish();
  return said();
}
cudaError_t cudaMalloc(void** data, size_t bytes) { return take_memory(data, bytes); }
cudaError_t cudaFree(void* data) { return give_memory_back(data); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  ++emulated_cuda_runtime().host_allocations;
  return take_memory(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return give_memory_back(data); }
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  std::memset(data, value, bytes);
  return said();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *free = emulated_cuda_runtime().free_bytes;
  *all = emulated_cuda_runtime().memory_bytes;
  return said();
}
cudaError_t cudaGetLastError() {
  return emulated_cuda_runtime().launch_error.exchange(cudaSuccess) != cudaSuccess ? cudaSuccess
                                                                                   : said();
}
cudaError_t cudaPeekAtLastError() {
  const cudaError_t error = emulated_cuda_runtime().launch_error;
  return error != cudaSuccess ? error : said();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return said();
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st(current_gpu);
  ++emulated_cuda_runtime().streams;
  const std::lock_guard lock(streams_mutex);
  all_streams.push_back(*stream);
  return said();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(streams_mutex);
    std::erase(all_streams, stream);
  }
  delete stream;
  --emulated_cuda_runtime().streams;
  return said();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != nullptr) stream->finish();
  return said();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->give([to, from, bytes] { std::memcpy(to, from, bytes); });
  return said();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->give([recorded = event->recorded()] { recorded->wait(); });
  return said();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (said() != cudaSuccess) return said();
  *event = new CUevent_st;
  ++emulated_cuda_runtime().events;
  ++emulated_cuda_runtime().created_events;
  return said();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --emulated_cuda_runtime().events;
  return said();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream->give([recorded = event->record()] { recorded->reach(); });
  return said();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto recorded = event->recorded();
  const std::lock_guard lock(recorded->mutex);
  if (said() != cudaSuccess) return said();
  if (recorded->reached) return cudaSuccess;
  emulated_cuda_runtime().launch_error = cudaErrorNotReady;  // as some releases of the runtime do
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto from = begin->recorded(), to = end->recorded();
  if (!from->is_reached() || !to->is_reached()) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return said();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  event->recorded()->wait();
  return said();
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(stream->mutex);
  stream->captured.emplace();
  stream->capture_is_valid = true;
  return said();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(stream->mutex);
  *graph = nullptr;
  const CUgraph_st captured = std::move(*stream->captured);
  stream->captured.reset();
  if (!stream->capture_is_valid) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st(captured);
  ++emulated_cuda_runtime().graphs;
  return said();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launchable, cudaGraph_t graph,
                                 unsigned long long) {
  if (emulated_cuda_runtime().graph_error != cudaSuccess)
    return emulated_cuda_runtime().graph_error;
  *launchable = new CUgraphExec_st{graph->work};
  ++emulated_cuda_runtime().graphs;
  return said();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t launchable, cudaStream_t stream) {
  ++emulated_cuda_runtime().graph_launches;
  for (const auto& work : launchable->work) stream->give(work);
  return said();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --emulated_cuda_runtime().graphs;
  return said();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launchable) {
  delete launchable;
  --emulated_cuda_runtime().graphs;
  return said();
}
