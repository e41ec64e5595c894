#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A future event of a simulated network.
struct Event {
  enum class Kind : uint8_t { kDeliver, kOpen, kReportClosed, kWake, kAction, kSent };
  Time at{0};
  uint64_t sequence = 0;
  Kind kind = Kind::kWake;
  int node = 0;          ///< the node of the event; kSent: the host
  uint32_t index = 0;    ///< of the frame, connection or action
  const char* why = "";  ///< why a connection closed
};

/// The future events in order of time, and the virtual clock, which jumps from event to event.
class EventQueue {
 public:
  Time now() const { return now_; }
  bool empty() const { return events_.empty(); }
  /// When the next event is due. The queue must not be empty.
  Time next_at() const { return events_.front().at; }
  void schedule(Event event);
  /// Advances the clock to the next event, and returns the event.
  Event take();

 private:
  std::vector<Event> events_;  ///< a heap with the next event at the front
  Time now_{0};
  uint64_t sequence_ = 0;
};

}  // namespace poseidon::comm
