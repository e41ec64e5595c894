#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/wire/link_rate_estimator.h"
#include "comm/wire/rate_limit.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// The egress scheduler of a host: decides which connection may queue the next bulk frame. It
/// selects the waiting frame of highest priority, when the rate limit allows a frame. A frame that
/// leaves the host also needs credit: the bytes queued for other hosts, including the frame's own,
/// must be within kCredit. Frames for slow receivers neither need nor use credit. Above kCredit a
/// connection may still have one slice queued, if no queued frame has a higher priority. Without
/// that slice the link would be idle while the receivers of all queued frames are busy with other
/// senders. This class does no I/O and reads no clock.
class EgressScheduler {
 public:
  /// Identifies a connection; remove() frees the value for reuse.
  using Sender = uint32_t;
  /// Bytes of a frame with a full slice.
  static constexpr uint64_t kSliceFrame = kSliceBytes + kHeaderBytes;
  /// Limit on the bytes that are queued for other hosts. Frames for several busy receivers fit in
  /// it, plus a frame for an idle receiver. With a limit of two slices, communication-bound steps
  /// on four or more hosts take a tenth longer.
  static constexpr uint64_t kCredit = 6 * kSliceFrame;

  /// Adds a connection. A connection within the host (`leaves_host` is false) uses no credit.
  Sender add(bool leaves_host);
  /// Removes a closed connection and returns its credit.
  void remove(Sender sender);

  /// Reports the connection's bulk frame of highest priority, which waits for permission. It
  /// replaces the frame of the connection's earlier report.
  void want(Sender sender, Priority priority, uint64_t bytes);
  /// Reports that the connection has no waiting frame any more.
  void withdraw(Sender sender);
  /// Returns the connection that may queue its frame now, if any, and charges its credit.
  std::optional<Sender> next(Time now);
  /// Reports that all queued bytes of a connection are sent or nearly sent, and frees their credit.
  /// If sending took longer than grace_period(), the receiver is slow. Bytes for a slow receiver
  /// use no credit until its connection drains within grace_period() again.
  void drained(Sender sender, Time now);
  /// Returns the time at which next() may return another result even if no other method is called.
  /// nullopt: no frame waits.
  std::optional<Time> changes_at(Time now);

  /// Limits the rate of all connections together from now on; 0: no limit.
  void limit_rate(double bytes_per_second, Time now) { rate_.set(bytes_per_second, now); }

 private:
  struct Connection {
    bool leaves_host = true, late = false;
    Priority priority = 0;
    uint64_t ticket = 0;         ///< identifies the waiting frame; 0: no frame waits
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
  /// Whether the queued bytes of a connection use credit.
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
  std::array<Heap, 2> waiting_;  ///< [0]: frames within the host, [1]: frames that leave it
  uint64_t tickets_ = 0;
  uint64_t held_ = 0;  ///< queued bytes of the connections for which counts() is true
  /// The earliest time at which a connection for which counts() is true can have a slow receiver.
  Time late_at_ = Time{0};
  RateLimit rate_;
  LinkRateEstimator link_rate_;
};

}  // namespace poseidon::comm
