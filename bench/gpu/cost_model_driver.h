#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "bench/gpu/cost_counter.h"
#include "core/cuda/driver.h"

namespace poseidon::bench {

/// The name that the cost counter uses for a copy from host memory.
inline constexpr const char* kUploadKernel = "copy to the GPU";
/// The name that the cost counter uses for a copy to host memory.
inline constexpr const char* kDownloadKernel = "copy from the GPU";

/// A convolution or matrix product that reports its cost of arithmetic and launches. Any other
/// operation counts as its bytes and one launch.
class CountedOperation : public cuda::Operation {
 public:
  /// The cost without bytes. visit() reports the bytes.
  virtual Cost cost() const = 0;
};

/// Counts a driver's calls that issue work or wait. Any thread may increment the counters.
struct DriverCalls {
  std::atomic<int64_t> launches = 0;  ///< graphs, and operations and copies outside graphs
  std::atomic<int64_t> stream_waits = 0, host_waits = 0;
};

/// A driver that executes nothing and counts the issued operations. Its device memory is reserved
/// address space that cannot be read or written.
class CostModelDriver final : public cuda::Driver {
 public:
  /// `cost_counter` must outlive the driver.
  explicit CostModelDriver(CostCounter& cost_counter,
                           std::shared_ptr<DriverCalls> calls = std::make_shared<DriverCalls>())
      : cost_counter_(cost_counter),
        calls_(std::move(calls)),
        memory_(std::make_shared<Memory>()) {}

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override;
  size_t available() const override;
  cuda::Stream make_stream(cuda::StreamPriority) override {
    return static_cast<cuda::Stream>(streams_++);
  }
  void issue(cuda::Stream stream, std::unique_ptr<const cuda::Operation> operation) override;
  void copy(cuda::Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const cuda::Graph> make_graph(cuda::Stream,
                                                std::vector<cuda::GraphNode> nodes) override {
    return std::make_shared<const cuda::Graph>(std::move(nodes));
  }
  void issue(cuda::Stream stream, const std::shared_ptr<const cuda::Graph>& graph) override;
  std::shared_ptr<const cuda::StreamEvent> record(cuda::Stream stream) override;
  std::shared_ptr<const Timestamp> record_timestamp(cuda::Stream) override { return nullptr; }
  void wait(cuda::Stream, const std::shared_ptr<const cuda::StreamEvent>&) override {
    ++calls_->stream_waits;
  }

 private:
  class ByteCount;

  void count(const cuda::Operation& operation);
  void count_copy(const void* from, const void* to, size_t bytes);

  /// The allocated ranges of device memory: maps the end of each range to its beginning.
  struct Memory {
    std::map<const std::byte*, const std::byte*> beginnings;
    size_t taken = 0;
    bool has(const void* data) const;
  };

  CostCounter& cost_counter_;
  const std::shared_ptr<DriverCalls> calls_;  ///< events may outlive the driver
  std::shared_ptr<Memory> memory_;            ///< buffers may outlive the driver
  uint32_t streams_ = 0;
};

}  // namespace poseidon::bench
