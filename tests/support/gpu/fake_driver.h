#pragma once

#include <atomic>
#include <memory>

#include "core/cuda/driver.h"

namespace poseidon::cuda {

/// A GPU that the host plays: its memory is the host's, and work is done in an order by seed, of
/// all that streams and marks allow: some of it at once, some when the host waits for it, and some
/// while the host is busy elsewhere. Two operations that touch the same memory, one of them
/// writing, and that nothing orders, end by LogicError, which names both, whatever the order was;
/// so does one that touches other memory than this GPU's and the staging memory of all. What orders
/// two GPUs that share some is the host: a conflict between them is not found. What operations do
/// not tell of, and the host's own touches, the address sanitizer sees (GuardedMemory).
class FakeDriver final : public Driver {
 public:
  struct Options {
    uint64_t seed = 0;  ///< 0: all is done when it is issued
    /// A mutation: this one of the waits of streams, counted from 0, is left out. -1: none.
    int64_t dropped_wait = -1;
    /// Counts the waits of streams, of all drivers that are given it. May be null.
    std::atomic<int64_t>* waits = nullptr;
    size_t memory = size_t{1} << 30;  ///< of the device, bytes
    /// Count what a step should do without: memory that is taken, and the host's waits for what it
    /// does not know to be done. May be null.
    std::atomic<int64_t>*allocations = nullptr, *host_waits = nullptr;
  };

  explicit FakeDriver(const Options& options);
  ~FakeDriver() override;

  Buffer allocate(size_t bytes, Place place, std::string_view purpose) override;
  size_t available() const override { return memory_ - *taken_; }
  Stream make_stream(Urgency urgency) override;
  void issue(Stream stream, std::unique_ptr<const Operation> operation) override;
  void copy(Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) override;
  void issue(Stream stream, const std::shared_ptr<const Graph>& graph) override;
  std::shared_ptr<const Mark> record(Stream stream) override;
  std::shared_ptr<const Moment> moment(Stream stream) override;
  void wait(Stream stream, const std::shared_ptr<const Mark>& mark) override;

 private:
  class Machine;
  class MachineMark;
  class MachineMoment;

  /// Of which `counted` are of the device's memory.
  Buffer plain(size_t bytes, size_t counted);
  Buffer pages(size_t bytes);

  const size_t memory_;
  const std::shared_ptr<std::atomic<size_t>> taken_ =
      std::make_shared<std::atomic<size_t>>();  ///< of memory_
  std::shared_ptr<Machine> machine_;
};

}  // namespace poseidon::cuda
