#include "core/cuda/runtime/runtime_driver.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "core/cuda/runtime/call.h"
#include "core/cuda/runtime/gpus.h"
#include "core/memory.h"

namespace poseidon::cuda {

namespace {

/// Device memory for graphs, and for the code that libraries load at their first calls.
constexpr size_t kReservedBytes = size_t{1} << 30;

/// Events that the constructor creates, so that the first operations need not create events.
constexpr size_t kFirstEvents = 64;

/// Waits for all work of a GPU. Ignores errors: the calls that issue work report them. The caller
/// holds the GpuLock.
void finish_work(int gpu) noexcept {
  static_cast<void>(cudaSetDevice(gpu));
  static_cast<void>(cudaDeviceSynchronize());
}

}  // namespace

class RuntimeDriver::RuntimeEvent final : public StreamEvent {
 public:
  RuntimeEvent(std::shared_ptr<const StreamPoint> point, std::shared_ptr<TaskThread> tasks)
      : point_(std::move(point)), tasks_(std::move(tasks)) {}

  cudaEvent_t event() const { return point_->event(); }
  bool reached() const override { return point_->reached(); }
  void wait() const override { point_->wait(); }
  void then(std::function<void()> task) const override {
    tasks_->run_after(point_, std::move(task));
  }

 private:
  const std::shared_ptr<const StreamPoint> point_;
  const std::shared_ptr<TaskThread> tasks_;
};

/// An instantiated CUDA graph. The destructor does not wait for the GPU: if the graph is in flight,
/// CUDA frees it after its completion (cuGraphExecDestroy).
class RuntimeDriver::RuntimeGraph final : public Graph {
 public:
  RuntimeGraph(std::vector<GraphNode> nodes, int gpu, cudaGraphExec_t launchable)
      : Graph(std::move(nodes)), gpu_(gpu), launchable_(launchable) {}
  ~RuntimeGraph() override {
    const GpuLock lock(gpu_);
    static_cast<void>(cudaGraphExecDestroy(launchable_));
  }

  cudaGraphExec_t launchable() const { return launchable_; }
  /// The last operation of the graph, for messages.
  std::shared_ptr<const Operation> last_operation() const {
    for (const GraphNode& node : std::views::reverse(nodes()))
      if (node.operation != nullptr) return node.operation;
    return nullptr;
  }

 private:
  const int gpu_;
  const cudaGraphExec_t launchable_;
};

/// Captures a stream: while this object exists, work issued to the stream becomes part of a graph
/// and is not done. Calls that this thread may not make during a capture, such as allocation, fail.
/// Other threads wait with such calls until the capture has ended (GpuLock).
class RuntimeDriver::Capture {
 public:
  Capture(int gpu, cudaStream_t stream) : lock_(gpu), stream_(stream) {
    check_call(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (!ended_) static_cast<void>(cudaStreamEndCapture(stream_, &graph_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
    static_cast<void>(cudaGetLastError());  // clears an error, which is already reported
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends the capture, and instantiates the captured graph.
  cudaGraphExec_t end() {
    ended_ = true;
    check_call(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    cudaGraphExec_t launchable = nullptr;
    const cudaError_t result = cudaGraphInstantiate(&launchable, graph_, 0);
    if (result == cudaErrorMemoryAllocation)
      throw OutOfMemory(text("out of memory: cudaGraphInstantiate: ", text_of(result),
                             "; reduce the batch, or set \"device.graphs\" to false"));
    check_call(result, "cudaGraphInstantiate");
    return launchable;
  }

 private:
  const GpuLock lock_;
  const cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

RuntimeDriver::RuntimeDriver(int index)
    : index_(index),
      staging_(
          [this](size_t bytes, std::string_view purpose) { return staging_memory(bytes, purpose); },
          [index] {
            const GpuLock lock(index);
            finish_work(index);
          }) {
  use_gpu(index);
  events_->add(kFirstEvents);
}

RuntimeDriver::~RuntimeDriver() {
  for (const StreamState& stream_state : stream_states_) stream_state.tasks->end();
  const GpuLock lock(index_);
  finish_work(index_);
  for (const StreamState& stream_state : stream_states_)
    static_cast<void>(cudaStreamDestroy(stream_state.stream));
}

Buffer RuntimeDriver::allocate(size_t bytes, MemoryKind place, std::string_view purpose) {
  if (bytes == 0) return {};
  const GpuLock lock(index_);
  return place == MemoryKind::kDevice ? device_memory(bytes, purpose)
                                      : staging_.allocate(bytes, purpose);
}

Buffer RuntimeDriver::device_memory(size_t bytes, std::string_view purpose) const {
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) out_of_memory(bytes, purpose, "of device memory");
  check_call(result, "cudaMalloc");
  Buffer buffer(data, bytes, [gpu = index_](void* memory, size_t) {
    const GpuLock lock_to_free(gpu);
    finish_work(gpu);
    static_cast<void>(cudaFree(memory));
  });
  check_call(cudaMemset(data, 0, bytes), "cudaMemset");
  // The driver's streams do not wait for the default stream, in which this memset runs.
  check_call(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return buffer;
}

Buffer RuntimeDriver::staging_memory(size_t bytes, std::string_view purpose) const {
  void* data = nullptr;
  const cudaError_t result = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (result == cudaErrorMemoryAllocation) out_of_memory(bytes, purpose, "of pinned host memory");
  check_call(result, "cudaHostAlloc");
  std::memset(data, 0, bytes);
  return Buffer(data, bytes, [gpu = index_](void* memory, size_t) {
    const GpuLock lock_to_free(gpu);
    finish_work(gpu);
    static_cast<void>(cudaFreeHost(memory));
  });
}

void RuntimeDriver::out_of_memory(size_t bytes, std::string_view purpose, const char* where) const {
  static_cast<void>(cudaGetLastError());  // clears the error, which is reported here
  size_t free = 0, all = 0;
  static_cast<void>(cudaMemGetInfo(&free, &all));
  throw OutOfMemory(text("out of memory: GPU ", index_, ": cannot allocate ", bytes_text(bytes),
                         " ", where, " for ", purpose, "; ", bytes_text(free), " of the GPU's ",
                         bytes_text(all), " are free"));
}

size_t RuntimeDriver::available() const {
  size_t free = 0, all = 0;
  check_call(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free - std::min(free, kReservedBytes);
}

Stream RuntimeDriver::make_stream(StreamPriority priority) {
  int least = 0, greatest = 0;
  check_call(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  stream_states_.reserve(stream_states_.size() + 1);
  StreamState stream_state{
      .stream = nullptr, .last = nullptr, .tasks = std::make_shared<TaskThread>(index_)};
  check_call(cudaStreamCreateWithPriority(&stream_state.stream, cudaStreamNonBlocking,
                                          priority == StreamPriority::kHigh ? greatest : least),
             "cudaStreamCreateWithPriority");
  stream_states_.push_back(std::move(stream_state));
  return static_cast<Stream>(stream_states_.size() - 1);
}

void RuntimeDriver::checked(const StreamState& stream_state, cudaError_t result,
                            const char* call) const {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  check_work(result, call, index_, stream_state.last.get());
}

void RuntimeDriver::issue(Stream stream, std::unique_ptr<const Operation> operation) {
  issue(stream_state(stream), std::move(operation));
}

void RuntimeDriver::issue(StreamState& to, std::shared_ptr<const Operation> operation) {
  to.last = std::move(operation);
  to.last->issue({.stream = to.stream, .host = nullptr});
  checked(to, cudaPeekAtLastError(), "launch");
}

void RuntimeDriver::copy(Stream stream, const void* from, void* to, size_t bytes) {
  const StreamState& in = stream_state(stream);
  checked(in, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, in.stream), "cudaMemcpyAsync");
}

std::shared_ptr<const Graph> RuntimeDriver::make_graph(Stream stream,
                                                       std::vector<GraphNode> nodes) {
  StreamState& through = stream_state(stream);
  StreamState capturing = through;  // a copy, so that through.last does not change
  Capture capture(index_, through.stream);
  for (const GraphNode& node : nodes)
    if (node.operation != nullptr)
      issue(capturing, node.operation);
    else
      copy(stream, node.from, node.to, node.bytes);
  return std::make_shared<RuntimeGraph>(std::move(nodes), index_, capture.end());
}

void RuntimeDriver::issue(Stream stream, const std::shared_ptr<const Graph>& graph) {
  StreamState& to = stream_state(stream);
  const auto& made = static_cast<const RuntimeGraph&>(*graph);
  if (auto last = made.last_operation()) to.last = std::move(last);
  checked(to, cudaGraphLaunch(made.launchable(), to.stream), "cudaGraphLaunch");
}

std::shared_ptr<const StreamEvent> RuntimeDriver::record(Stream stream) {
  const StreamState& of = stream_state(stream);
  of.tasks->rethrow_failure();
  return std::make_shared<RuntimeEvent>(
      std::make_shared<StreamPoint>(index_, events_, of.stream, of.last), of.tasks);
}

std::shared_ptr<const Timestamp> RuntimeDriver::record_timestamp(Stream stream) {
  const StreamState& of = stream_state(stream);
  return clock_.record_timestamp(of.stream, of.last);
}

void RuntimeDriver::wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) {
  const StreamState& in = stream_state(stream);
  const auto& point = static_cast<const RuntimeEvent&>(*mark);
  checked(in, cudaStreamWaitEvent(in.stream, point.event(), cudaEventWaitDefault),
          "cudaStreamWaitEvent");
}

}  // namespace poseidon::cuda
