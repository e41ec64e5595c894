#include "comm/asio/congestion.h"

// This header declares tcpi_min_rtt. It conflicts with <netinet/tcp.h>, which asio.hpp includes.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/error.h"

namespace poseidon::comm {

namespace {

constexpr std::chrono::seconds kUpdateEvery{1};

std::string present(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size);
  return {name.data(), ::strnlen(name.data(), size)};
}

bool take(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

/// The least round trip of the last minutes (net.ipv4.tcp_min_rtt_wlen); nullopt: none is known.
std::optional<std::chrono::microseconds> least_round_trip(int socket) {
  tcp_info info{};
  info.tcpi_min_rtt = UINT32_MAX;  // also the kernel's value for none
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  if (info.tcpi_min_rtt == UINT32_MAX) return {};
  return std::chrono::microseconds(info.tcpi_min_rtt);
}

}  // namespace

CongestionControl permitted(CongestionControl wanted, Log& log) {
  if (wanted == CongestionControl::kAuto || wanted == CongestionControl::kSystem) return wanted;
  const std::string& name = congestion_control_names()[static_cast<size_t>(wanted)];
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return wanted;
  const bool taken = take(probe, name);
  const std::string system = present(probe);
  ::close(probe);
  if (taken) return wanted;
  log.warning(text("comm.congestion_control \"", name,
                   "\" is not permitted on this host, which uses \"", system,
                   "\"; load the kernel module tcp_", name, ", and add ", name,
                   " to net.ipv4.tcp_allowed_congestion_control"));
  return CongestionControl::kSystem;
}

void SocketCongestion::begin(int socket, bool leaves_host) {
  socket_ = socket;
  leaves_host_ = leaves_host;
  system_ = present(socket);
  if (!leaves_host) take(socket, "reno");
}

bool SocketCongestion::is_long() const {
  return leaves_host_ && (!round_trip_ || *round_trip_ >= kShortRoundTrip);
}

void SocketCongestion::update(CongestionControl setting, Clock::time_point now) {
  if (!leaves_host_ || now < next_) return;
  next_ = now + kUpdateEvery;
  if (const auto measured = least_round_trip(socket_))
    round_trip_ = std::min(round_trip_.value_or(*measured), *measured);
  for (const std::string& name : congestion_controls(setting, system_, round_trip_))
    if (take(socket_, name)) return;
}

}  // namespace poseidon::comm
