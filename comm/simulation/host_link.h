#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "comm/wire/egress_scheduler.h"

namespace poseidon::comm {

/// The link of a simulated host, in both directions. Its egress scheduler selects the next bulk
/// frame, as on a real host whose members share a process. Frames leave in the order in which they
/// were queued.
class HostLink {
 public:
  using Sender = EgressScheduler::Sender;

  explicit HostLink(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Adds a connection to another host.
  Sender add();
  /// Adds a waiting bulk frame of `bytes` bytes. `frame` identifies it in next() and drop().
  void push(Sender sender, uint32_t frame, Priority priority, uint64_t bytes);
  /// Returns the bulk frame that starts to leave now; nullopt: no frame starts to leave.
  std::optional<uint32_t> next(Time now);
  /// Called when the frame that next() returned has left.
  void has_left(Time now);
  /// Pauses or resumes the frames of a connection, because its process is paused or resumes.
  void pause(Sender sender, bool paused);
  /// Removes the waiting frames of a connection, and returns them.
  std::vector<uint32_t> drop(Sender sender);

  /// Reserves the link for `bytes` bytes that leave next. Returns when the last byte has left.
  Time leaves_at(uint64_t bytes, Time now);
  Time egress_free() const { return egress_free_; }
  /// Reserves the link for `bytes` bytes that arrive. Returns when the last byte has arrived: at
  /// `at` or later.
  Time arrives_at(uint64_t bytes, Time at);

 private:
  struct QueuedFrame {
    Sender sender;
    uint32_t frame;
  };
  struct Waiting {
    Priority priority;
    uint32_t frame;
    uint64_t sequence, bytes;
    bool operator<(const Waiting& other) const {  // for a heap whose front is the most urgent
      return priority != other.priority ? priority > other.priority : sequence > other.sequence;
    }
  };
  struct Outbox {
    std::vector<Waiting> frames;  ///< a heap
    bool unsent = false, paused = false;
  };
  Time time_of(uint64_t bytes) const;
  void want(Sender sender);
  void queue_granted(Time now);

  double bytes_per_second_;
  EgressScheduler egress_scheduler_;
  std::vector<Outbox> outboxes_;  ///< by sender
  uint64_t sequence_ = 0;
  std::deque<QueuedFrame> queued_;  ///< the first frame leaves next, or is leaving (busy_)
  bool busy_ = false;               ///< a bulk frame is leaving
  Time egress_free_{0}, ingress_free_{0};
};

}  // namespace poseidon::comm
