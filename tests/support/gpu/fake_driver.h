#pragma once

#include <atomic>
#include <memory>
#include <random>

#include "core/cuda/driver.h"

namespace poseidon::cuda {

/// An emulated GPU: a driver whose memory is host memory and whose operations run on the host.
///
/// Operations run in a pseudo-random order that the seed selects among all orders that streams and
/// events allow. Some run when they are issued, some when the host waits for them, and some in a
/// thread of the driver.
///
/// The driver throws LogicError in two cases. First, if two operations access the same memory, one
/// of them writes, and nothing orders them. The error names both, whatever the order was. Second,
/// if an operation accesses memory that is neither this GPU's memory nor staging memory.
///
/// Limits: the host orders the work of two GPUs that share staging memory, so conflicts between
/// GPUs are not found. The address sanitizer finds accesses that operations do not declare and
/// wrong accesses by the host (GuardedMemory).
class FakeDriver final : public Driver {
 public:
  struct Options {
    /// 0: each operation runs when it is issued, and make_graph() succeeds. Otherwise make_graph()
    /// fails for some graphs, which the seed selects.
    uint64_t seed = 0;
    /// A mutation for tests: index of the stream wait that is left out, from 0. -1: none.
    int64_t dropped_wait = -1;
    /// Counts stream waits of all drivers that share this counter. May be null.
    std::atomic<int64_t>* waits = nullptr;
    size_t memory = size_t{1} << 30;  ///< capacity of the device memory, bytes
    /// Count events that a steady-state step should not cause: allocations, and host waits for work
    /// that the host does not know to be complete. May be null.
    std::atomic<int64_t>*allocations = nullptr, *host_waits = nullptr;
    /// Counts the bytes of staging memory that kernels and library calls read or write. Copies are
    /// not counted. May be null.
    std::atomic<int64_t>* kernel_staging_bytes = nullptr;
    /// Counts the copies to staging memory. May be null.
    std::atomic<int64_t>* copies_to_staging = nullptr;
  };

  explicit FakeDriver(const Options& options);
  ~FakeDriver() override;

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override;
  size_t available() const override { return memory_ - *taken_; }
  Stream make_stream(StreamPriority priority) override;
  void issue(Stream stream, std::unique_ptr<const Operation> operation) override;
  void copy(Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) override;
  void issue(Stream stream, const std::shared_ptr<const Graph>& graph) override;
  std::shared_ptr<const StreamEvent> record(Stream stream) override;
  std::shared_ptr<const Timestamp> record_timestamp(Stream stream) override;
  void wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) override;

 private:
  class Machine;
  class MachineEvent;
  class MachineTimestamp;

  /// `counted`: bytes of the allocation that count as device memory.
  Buffer plain(size_t bytes, size_t counted);
  Buffer pages(size_t bytes);

  const size_t memory_;
  const bool refuses_graphs_;
  std::mt19937_64 refusals_;  ///< selects the graphs that make_graph() refuses
  const std::shared_ptr<std::atomic<size_t>> taken_ =
      std::make_shared<std::atomic<size_t>>();  ///< used bytes of memory_
  std::shared_ptr<Machine> machine_;
};

}  // namespace poseidon::cuda
