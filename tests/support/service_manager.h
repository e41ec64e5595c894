#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace poseidon {

/// The receiving end of systemd's sd_notify protocol: a datagram socket for the reports of
/// services.
class ServiceManager {
 public:
  /// `address`: as in NOTIFY_SOCKET.
  explicit ServiceManager(const std::string& address)
      : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path, address.data(), address.size());
    if (address[0] == '@') place.sun_path[0] = '\0';
    const size_t bytes = offsetof(sockaddr_un, sun_path) + address.size();
    is_bound =
        bind(socket_, reinterpret_cast<sockaddr*>(&place), static_cast<socklen_t>(bytes)) == 0;
  }
  ~ServiceManager() { close(socket_); }
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// The next datagram; "" when none comes within `ms`.
  std::string next(int ms) {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    char datagram[4096];
    if (poll(&waiting, 1, ms) != 1) return "";
    const ssize_t bytes = recv(socket_, datagram, sizeof datagram, 0);
    return bytes < 0 ? "" : std::string(datagram, static_cast<size_t>(bytes));
  }

  /// Whether a datagram with this prefix arrives within `ms`. Drops the datagrams before it.
  bool hears(const std::string& beginning, int ms = 30000) {
    for (std::string datagram = next(ms); !datagram.empty(); datagram = next(ms))
      if (datagram.starts_with(beginning)) return true;
    return false;
  }

  /// All datagrams that have arrived.
  std::vector<std::string> all() {
    std::vector<std::string> datagrams;
    for (std::string each = next(0); !each.empty(); each = next(0)) datagrams.push_back(each);
    return datagrams;
  }

  bool is_bound = false;

 private:
  const int socket_;
};

}  // namespace poseidon
