#pragma once

#include <map>
#include <optional>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Bounds of a job's timeout, in seconds. A silence shorter than the minimum proves nothing,
/// because threads on a busy machine run late.
inline constexpr double kMinTimeoutSeconds = 0.5, kMaxTimeoutSeconds = 1e6;

/// When each peer was last heard. Each node sends a heartbeat on every connection four times per
/// `timeout`. A peer that is silent for `timeout` counts as failed.
class Liveness {
 public:
  explicit Liveness(Time timeout) : timeout_(timeout) {}

  void add(ConnectionId connection, Time now) { heard_[connection] = now; }
  void remove(ConnectionId connection) { heard_.erase(connection); }
  void heard(ConnectionId connection, Time now) {
    const auto found = heard_.find(connection);
    if (found != heard_.end()) found->second = now;
  }
  /// Sets the timeout, and makes the next wake() send heartbeats. Peers may already measure silence
  /// against this timeout, which may be much shorter than this node's previous one.
  void set_timeout(Time timeout) {
    timeout_ = timeout;
    next_beat_ = Time{0};
  }
  Time timeout() const { return timeout_; }

  /// Sends the heartbeats that are due, requests the next wake, and returns the connections that
  /// have been silent for too long.
  std::vector<ConnectionId> wake(Transport& transport) {
    const Time now = transport.now();
    // A node that missed its own wakes (stopped process, suspended machine) has received nothing
    // either. It must not count that time as silence of its peers.
    if (last_wake_ && now - *last_wake_ > timeout_ / 2)
      for (auto& [connection, when] : heard_) when = now;
    last_wake_ = now;
    transport.wake_at(now + timeout_ / 20);
    beat(transport, now);
    std::vector<ConnectionId> silent;
    for (const auto& [connection, when] : heard_)
      if (now - when >= timeout_) silent.push_back(connection);
    return silent;
  }

 private:
  void beat(Transport& transport, Time now) {
    if (now < next_beat_) return;
    next_beat_ = now + timeout_ / 4;
    for (const auto& [connection, when] : heard_)
      transport.send(connection, {.kind = FrameKind::kHeartbeat}, {}, kUrgent);
  }

  Time timeout_;
  Time next_beat_{0};
  std::optional<Time> last_wake_;
  std::map<ConnectionId, Time> heard_;
};

}  // namespace poseidon::comm
