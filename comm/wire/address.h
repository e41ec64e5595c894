#pragma once

#include <cstdint>
#include <string>

namespace poseidon::comm {

/// "host:port", taken apart. An IPv6 address stands in brackets, "[::1]:7000".
struct HostPort {
  std::string host;  ///< a name or an address, without brackets
  uint16_t port = 0;
};

/// Throws ConfigError: `"gpu3" is no address, expected HOST:PORT`.
HostPort parse_address(const std::string& address);

std::string to_string(const HostPort& address);

/// The address of a "host:port" without its port, brackets and all.
std::string host_of(const std::string& address);

}  // namespace poseidon::comm
