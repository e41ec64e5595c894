#include "core/cuda/wait_eliding_driver.h"

#include <algorithm>

namespace poseidon::cuda {

/// An event that stores which work is done when the event is reached.
class WaitElidingDriver::OrderedEvent final : public StreamEvent {
 public:
  OrderedEvent(std::shared_ptr<const StreamEvent> mark, VectorClock done,
               std::shared_ptr<StreamOrder> order)
      : mark_(std::move(mark)), done_(std::move(done)), order_(std::move(order)) {}

  bool reached() const override {
    if (!mark_->reached()) return false;
    order_->host_waited_for(done_);
    return true;
  }
  void wait() const override {
    if (order_->host_is_after(done_)) return;
    mark_->wait();
    order_->host_waited_for(done_);
  }
  void then(std::function<void()> task) const override { mark_->then(std::move(task)); }

  const std::shared_ptr<const StreamEvent>& mark() const { return mark_; }
  const VectorClock& done() const { return done_; }

 private:
  const std::shared_ptr<const StreamEvent> mark_;
  const VectorClock done_;
  const std::shared_ptr<StreamOrder> order_;
};

Stream WaitElidingDriver::make_stream(StreamPriority priority) {
  stream_states_.emplace_back();
  return driver_->make_stream(priority);
}

void WaitElidingDriver::wait_for_awaited(Stream stream) {
  const auto number = static_cast<size_t>(stream);
  for (const auto& mark : stream_state(stream).awaited) {
    if (order_->is_after(number, mark->done())) continue;
    driver_->wait(stream, mark->mark());
    order_->comes_after(number, mark->done());
  }
  stream_state(stream).awaited.clear();
}

void WaitElidingDriver::begin_operation(Stream stream) {
  wait_for_awaited(stream);
  order_->issued(static_cast<size_t>(stream));
  stream_state(stream).last = nullptr;
}

void WaitElidingDriver::issue(Stream stream, std::unique_ptr<const Operation> operation) {
  begin_operation(stream);
  driver_->issue(stream, std::move(operation));
}

void WaitElidingDriver::copy(Stream stream, const void* from, void* to, size_t bytes) {
  begin_operation(stream);
  driver_->copy(stream, from, to, bytes);
}

/// A graph contains no waits and no events, so StreamOrder counts it as one operation.
void WaitElidingDriver::issue(Stream stream, const std::shared_ptr<const Graph>& graph) {
  begin_operation(stream);
  driver_->issue(stream, graph);
}

std::shared_ptr<const StreamEvent> WaitElidingDriver::record(Stream stream) {
  const auto number = static_cast<size_t>(stream);
  StreamState& of_stream = stream_state(stream);
  // If the only awaited event comes after all work of the stream, this event also marks the end of
  // the stream.
  if (of_stream.awaited.size() == 1 &&
      of_stream.awaited[0]->done().includes(order_->before(number)))
    return of_stream.awaited[0];
  wait_for_awaited(stream);
  if (of_stream.last == nullptr || !of_stream.last->done().includes(order_->before(number)))
    of_stream.last =
        std::make_shared<OrderedEvent>(driver_->record(stream), order_->before(number), order_);
  return of_stream.last;
}

/// Issues the pending waits first, so that the timestamp includes their delay.
std::shared_ptr<const Timestamp> WaitElidingDriver::record_timestamp(Stream stream) {
  wait_for_awaited(stream);
  return driver_->record_timestamp(stream);
}

void WaitElidingDriver::wait(Stream stream, const std::shared_ptr<const StreamEvent>& mark) {
  auto ordered = std::static_pointer_cast<const OrderedEvent>(mark);
  const VectorClock& done = ordered->done();
  auto& awaited = stream_state(stream).awaited;
  const auto comes_later = [&](const auto& other) { return other->done().includes(done); };
  if (order_->is_after(static_cast<size_t>(stream), done) ||
      std::ranges::any_of(awaited, comes_later))
    return;
  std::erase_if(awaited, [&](const auto& other) { return done.includes(other->done()); });
  awaited.push_back(std::move(ordered));
}

}  // namespace poseidon::cuda
