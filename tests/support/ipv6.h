#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace poseidon {

/// Whether the machine has the address ::1. Containers often have no IPv6.
inline bool has_ipv6() {
  const int number = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 place{};
  place.sin6_family = AF_INET6;
  place.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  const bool bound = bind(number, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  close(number);
  return bound;
}

}  // namespace poseidon
