#pragma once

#include <cstdint>
#include <string>

namespace poseidon::comm {

/// An address "host:port", split. An IPv6 address has brackets: "[::1]:7000".
struct HostPort {
  std::string host;  ///< a name or an address, without brackets
  uint16_t port = 0;
};

/// Parses "host:port". Throws ConfigError for any other text: `expected HOST:PORT ..., got "gpu3"`.
HostPort parse_address(const std::string& address);

std::string to_string(const HostPort& address);

/// The host of a "host:port", with its brackets if it has any.
std::string host_of(const std::string& address);

}  // namespace poseidon::comm
