#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "core/cuda/driver.h"
#include "core/cuda/runtime/event_clock.h"
#include "core/cuda/runtime/task_thread.h"
#include "core/cuda/slab_memory.h"

namespace poseidon::cuda {

/// A GPU accessed through the CUDA runtime. The runtime loads the machine's driver at its first
/// call, so a program with this class also runs on machines without a driver. A failed call throws
/// RunError. CUDA reports the error of a kernel in a later call than the one that issued it.
class RuntimeDriver final : public Driver {
 public:
  /// `index` is the number of the GPU in the machine, from 0. Throws ConfigError if it cannot be
  /// used.
  explicit RuntimeDriver(int index);
  /// Waits for all work, and runs the remaining tasks (Event::Point::then).
  ~RuntimeDriver() override;

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override;
  size_t available() const override;
  Stream make_stream(StreamPriority priority) override;
  void issue(Stream stream, std::unique_ptr<const Operation> operation) override;
  void copy(Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) override;
  void issue(Stream stream, const std::shared_ptr<const Graph>& graph) override;
  std::shared_ptr<const StreamEvent> record(Stream stream) override;
  std::shared_ptr<const Timestamp> record_timestamp(Stream stream) override;
  void wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) override;

 private:
  class RuntimeEvent;
  class RuntimeGraph;
  class Capture;

  /// A CUDA stream. `last` is the operation issued last, for messages.
  struct StreamState {
    cudaStream_t stream = nullptr;
    std::shared_ptr<const Operation> last;
    std::shared_ptr<TaskThread> tasks;
  };

  void issue(StreamState& to, std::shared_ptr<const Operation> operation);
  StreamState& stream_state(Stream stream) {
    return stream_states_.at(static_cast<size_t>(stream));
  }
  /// Throws OutOfMemory or another RunError if the call failed. The message names the GPU, the call
  /// and the last operation. Clears the error, so that later calls do not report it again.
  void checked(const StreamState& stream_state, cudaError_t result, const char* call) const;
  Buffer device_memory(size_t bytes, std::string_view purpose) const;
  Buffer staging_memory(size_t bytes, std::string_view purpose) const;
  [[noreturn]] void out_of_memory(size_t bytes, std::string_view purpose, const char* where) const;

  const int index_;
  std::shared_ptr<EventPool> events_ =
      std::make_shared<EventPool>(cudaEventDisableTiming | cudaEventBlockingSync);
  EventClock clock_{index_};
  SlabMemory staging_;
  std::vector<StreamState> stream_states_;
};

}  // namespace poseidon::cuda
