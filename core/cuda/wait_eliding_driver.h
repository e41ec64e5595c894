#pragma once

#include <memory>
#include <vector>

#include "core/cuda/driver.h"
#include "core/cuda/stream_order.h"

namespace poseidon::cuda {

/// A driver that forwards calls to another driver, and omits four kinds of redundant calls:
/// * a wait for work that already precedes the stream's next operation
/// * a wait of the host for work that the host has already waited for
/// * a wait that no later work in the same stream follows
/// * a second event at the same position of a stream
class WaitElidingDriver final : public Driver {
 public:
  explicit WaitElidingDriver(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override {
    return driver_->allocate(bytes, place, purpose);
  }
  size_t available() const override { return driver_->available(); }
  Stream make_stream(StreamPriority priority) override;
  void issue(Stream stream, std::unique_ptr<const Operation> operation) override;
  void copy(Stream stream, const void* from, void* to, size_t bytes) override;
  std::shared_ptr<const Graph> make_graph(Stream stream, std::vector<GraphNode> nodes) override {
    return driver_->make_graph(stream, std::move(nodes));
  }
  void issue(Stream stream, const std::shared_ptr<const Graph>& graph) override;
  std::shared_ptr<const StreamEvent> record(Stream stream) override;
  std::shared_ptr<const Timestamp> record_timestamp(Stream stream) override;
  void wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) override;

 private:
  class OrderedEvent;

  struct StreamState {
    /// Event at the end of the work issued so far; null: none recorded there.
    std::shared_ptr<const OrderedEvent> last;
    /// Events that the stream's next operation waits for.
    std::vector<std::shared_ptr<const OrderedEvent>> awaited;
  };

  StreamState& stream_state(Stream stream) {
    return stream_states_.at(static_cast<size_t>(stream));
  }
  void wait_for_awaited(Stream stream);
  void begin_operation(Stream stream);

  std::unique_ptr<Driver> driver_;
  const std::shared_ptr<StreamOrder> order_ = std::make_shared<StreamOrder>();
  std::vector<StreamState> stream_states_;
};

}  // namespace poseidon::cuda
