#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/wire/link_rate_estimator.h"
#include "comm/wire/rate_limit.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// The egress scheduler of a host: decides which connection may queue a bulk frame on the host's
/// link next. It selects the connection with the frame of highest priority, as the rate limit
/// allows.
/// A frame may be queued if all queued bytes, including its own, are within kCredit. Above kCredit
/// a connection may still queue one slice, if no queued frame has a higher priority. Without that
/// slice, receivers that are busy with other senders would leave the link idle.
/// This class does no I/O and reads no clock.
class EgressScheduler {
 public:
  /// Identifies a connection; remove() frees the value for reuse.
  using Sender = uint32_t;
  /// Bytes of a frame with a full slice.
  static constexpr uint64_t kSliceFrame = kSliceBytes + kHeaderBytes;
  /// Limit on queued bytes, over all connections, before a lower-priority frame may be queued.
  /// Frames for some busy receivers fit in it, and after them a frame for an idle receiver. With a
  /// limit of two slices, communication-bound steps on four or more hosts take a tenth longer.
  static constexpr uint64_t kCredit = 6 * kSliceFrame;

  /// Adds a connection. A connection within the host uses no credit.
  Sender add(bool leaves_host);
  /// Removes a closed connection and returns its credit.
  void remove(Sender sender);

  /// A connection's bulk frame of highest priority waits. It replaces the connection's earlier
  /// waiting frame.
  void want(Sender sender, Priority priority, uint64_t bytes);
  /// The connection has no waiting frame any more.
  void withdraw(Sender sender);
  /// Returns the connection that may queue its frame now, if any, and charges its credit.
  std::optional<Sender> next(Time now);
  /// The queued bytes of a connection are sent, or nearly so: their credit returns. If this takes
  /// far longer than the link needs for all permitted bytes, the receiver is slow. The bytes of a
  /// slow connection do not count as queued until it drains in time again.
  void drained(Sender sender, Time now);
  /// When next() may return another result without a further event; nullopt: no frame waits.
  std::optional<Time> changes_at(Time now);

  /// Limits the rate of all connections together from now on; 0: no limit.
  void limit_rate(double bytes_per_second, Time now) { rate_.set(bytes_per_second, now); }

 private:
  struct Connection {
    bool leaves_host = true, late = false;
    Priority priority = 0;
    uint64_t ticket = 0;         ///< of the waiting frame; 0: none waits
    uint64_t wanted = 0;         ///< bytes of the waiting frame
    uint64_t held = 0;           ///< bytes queued and not yet drained
    Priority held_priority = 0;  ///< of the last queued frame
    Time since{0};               ///< when the first of the held bytes were queued
  };
  /// A waiting frame. It is valid while its ticket equals the ticket of its connection.
  struct Waiting {
    Priority priority;
    Sender sender;
    uint64_t ticket;
    bool operator<(const Waiting& other) const {  // for a heap whose front is the most urgent
      return priority != other.priority ? priority > other.priority : ticket > other.ticket;
    }
  };
  using Heap = std::vector<Waiting>;

  Heap& heap_of(const Connection& each) { return waiting_[each.leaves_host ? 1 : 0]; }
  static bool counts(const Connection& each) { return each.leaves_host && !each.late; }
  const Waiting* first(Heap& heap);
  bool has_credit(const Connection& each) const;
  bool is_as_urgent_as_all_held(Priority priority) const;
  Sender grant(Heap& heap, Time now);
  void find_late(Time now);
  Time grace_period() const;

  std::vector<Connection> connections_;
  std::vector<Sender> free_;
  uint64_t leaving_ = 0;         ///< connections that leave the host
  std::array<Heap, 2> waiting_;  ///< frames within the host, then others
  uint64_t tickets_ = 0;
  uint64_t held_ = 0;       ///< queued bytes of all connections that count
  Time late_at_ = Time{0};  ///< no counted connection is late before this time
  RateLimit rate_;
  LinkRateEstimator link_rate_;
};

}  // namespace poseidon::comm
