#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "comm/wire/link_arbiter.h"

namespace poseidon::comm {

/// The link of a simulated host, both ways. Which bulk frame is handed over next is decided by its
/// arbiter, as on a real host whose members share a process; those that have been handed over leave
/// in their order.
class HostLink {
 public:
  using Sender = LinkArbiter::Sender;

  explicit HostLink(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// A new connection to another host.
  Sender add();
  /// A bulk frame of `bytes` bytes waits.
  void push(Sender sender, uint32_t frame, Priority priority, uint64_t bytes);
  /// The bulk frame that begins to leave now, if one does.
  std::optional<uint32_t> next(Time now);
  /// It has left.
  void has_left(Time now);
  /// Its process stands still, or goes on.
  void pause(Sender sender, bool paused);
  /// Takes back the frames of a connection that wait.
  std::vector<uint32_t> drop(Sender sender);

  /// When the last of these bytes, the next that leave, has left.
  Time leaves_at(uint64_t bytes, Time now);
  Time egress_free() const { return egress_free_; }
  /// When the last of these bytes, which could be there at `at`, has come.
  Time comes_at(uint64_t bytes, Time at);

 private:
  struct HandedOver {
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
  void hand_over(Time now);

  double bytes_per_second_;
  LinkArbiter arbiter_;
  std::vector<Outbox> outboxes_;  ///< by sender
  uint64_t sequence_ = 0;
  std::deque<HandedOver> handed_over_;  ///< the first one is leaving
  bool busy_ = false;                   ///< a bulk frame is leaving
  Time egress_free_{0}, ingress_free_{0};
};

}  // namespace poseidon::comm
