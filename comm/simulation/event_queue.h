#pragma once

#include <cstdint>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Something that will happen in a simulated network.
struct Event {
  enum class Kind : uint8_t { kDeliver, kOpen, kReportClosed, kWake, kAction, kSent };
  Time at{0};
  uint64_t sequence = 0;
  Kind kind = Kind::kWake;
  int node = 0;          ///< to which it happens; of kSent the host
  uint32_t index = 0;    ///< of a frame, connection, action
  const char* why = "";  ///< of a closing
};

/// What is still to happen, in order, and the clock, which jumps from event to event.
class EventQueue {
 public:
  Time now() const { return now_; }
  bool empty() const { return events_.empty(); }
  /// When the next event is due. The queue must not be empty.
  Time next_at() const { return events_.front().at; }
  void schedule(Event event);
  /// Goes on to the next event.
  Event take();

 private:
  std::vector<Event> events_;  ///< a heap, the next one first
  Time now_{0};
  uint64_t sequence_ = 0;
};

}  // namespace poseidon::comm
