#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poseidon::comm {

/// comm.congestion_control: the TCP congestion control of connections between hosts.
enum class CongestionControl : uint8_t {
  kAuto,    ///< the system's; on a short round trip CUBIC or Reno instead of BBR
  kSystem,  ///< the system's
  kBbr,
  kCubic,
  kReno,
};

/// The names in files, in the order of the values.
const std::vector<std::string>& congestion_control_names();

/// A connection whose round trip is less than this is short: both hosts are in one network.
inline constexpr std::chrono::microseconds kShortRoundTrip{2000};

/// The congestion controls to try on a connection between hosts, in this order. `system`: the
/// system's choice for new sockets. `round_trip`: the least that was measured, if any.
///
/// BBR paces each connection by an estimated rate. If many hosts of one network send to each other
/// at the same time, some BBR connections get far less than a fair rate. Then all nodes wait for
/// these connections. Over a long round trip CUBIC and Reno use only a part of a link that loses
/// packets at random, because they take each loss for congestion. So BBR stays there.
std::vector<std::string> congestion_controls(
    CongestionControl setting, const std::string& system,
    const std::optional<std::chrono::microseconds>& round_trip);

}  // namespace poseidon::comm
