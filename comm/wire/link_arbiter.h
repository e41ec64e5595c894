#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/wire/link_pace.h"
#include "comm/wire/rate_limit.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Decides which connection of a host hands a bulk frame to its link next: the one with the most
/// urgent frame, as the rate allows. A frame that is less urgent than one that was handed over
/// waits until it and all that is unsent are within a credit of a few slices. Of others each
/// connection has a slice of its own: receivers that are busy with other senders would else leave
/// the link idle.
/// There is no I/O here and no clock.
class LinkArbiter {
 public:
  /// Identifies a connection; a value is used again after remove().
  using Sender = uint32_t;
  /// The frame of a whole slice.
  static constexpr uint64_t kSliceFrame = kSliceBytes + kHeaderBytes;
  /// What may be unsent, over all connections, with a less urgent frame that is handed over: frames
  /// for some receivers that are busy, and behind them for one that is not. With two slices, steps
  /// of four hosts or more that are bound by their links take a tenth longer.
  static constexpr uint64_t kCredit = 6 * kSliceFrame;

  /// A new connection. Where it stays within the host it takes no credit.
  Sender add(bool leaves_host);
  /// The connection has ended; its credit returns.
  void remove(Sender sender);

  /// The most urgent bulk frame of a connection waits, in the place of any that waited before.
  void want(Sender sender, Priority priority, uint64_t bytes);
  /// None waits any more.
  void withdraw(Sender sender);
  /// The connection that hands its frame over now, if one may; it takes the credit for it.
  std::optional<Sender> next(Time now);
  /// What a connection has handed over is sent, or nearly so: its credit returns. One that takes
  /// far longer than the link needs for all that may be unsent has a slow receiver: from then on it
  /// is not counted, until it is in time again.
  void drained(Sender sender, Time now);
  /// When next() may answer otherwise though nothing else has happened; nothing while none waits.
  std::optional<Time> changes_at(Time now);

  /// Limits the rate of all connections together from now on; 0 stands for no limit.
  void limit_rate(double bytes_per_second, Time now) { rate_.set(bytes_per_second, now); }

 private:
  struct Connection {
    bool leaves_host = true, late = false;
    Priority priority = 0;
    uint64_t ticket = 0;         ///< of the frame that waits; 0: none does
    uint64_t wanted = 0;         ///< bytes of that frame
    uint64_t held = 0;           ///< bytes handed over
    Priority held_priority = 0;  ///< of the last frame of these
    Time since{0};               ///< when the first of them were
  };
  /// A frame that waits, as long as its ticket is that of its connection.
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
  Sender hand_over(Heap& heap, Time now);
  void find_late(Time now);
  Time grace_period() const;

  std::vector<Connection> connections_;
  std::vector<Sender> free_;
  uint64_t leaving_ = 0;         ///< connections that leave the host
  std::array<Heap, 2> waiting_;  ///< of frames that stay within the host, and of others
  uint64_t tickets_ = 0;
  uint64_t held_ = 0;       ///< bytes of all connections that count
  Time late_at_ = Time{0};  ///< none that counts is late before
  RateLimit rate_;
  LinkPace pace_;
};

}  // namespace poseidon::comm
