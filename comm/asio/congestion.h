#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "comm/wire/congestion_control.h"
#include "core/log.h"

namespace poseidon::comm {

/// Returns `wanted` if this process may use it, else kSystem after a warning with the remedy.
CongestionControl permitted(CongestionControl wanted, Log& log);

/// The congestion control of one connected TCP socket. Used in the I/O thread only.
/// - Within a host: Reno, which every kernel has. BBR would need a timer for each segment to pace
///   it, which costs a third of a transfer's processor time.
/// - Between hosts: congestion_controls().
class SocketCongestion {
 public:
  using Clock = std::chrono::steady_clock;

  /// Called when the socket is connected.
  void begin(int socket, bool leaves_host);
  /// Applies `setting` to a connection between hosts, at most once a second. Measures the round
  /// trip each time: on a busy link the first round trips include the time in queues.
  void update(CongestionControl setting, Clock::time_point now);
  /// Whether the connection leaves the host and its round trip is not known to be short.
  bool is_long() const;

 private:
  int socket_ = -1;
  bool leaves_host_ = false;
  std::string system_;  ///< the system's choice
  std::optional<std::chrono::microseconds> round_trip_;
  Clock::time_point next_{};
};

}  // namespace poseidon::comm
