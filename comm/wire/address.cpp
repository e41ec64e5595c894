#include "comm/wire/address.h"

#include <charconv>

#include "core/error.h"

namespace poseidon::comm {

namespace {

[[noreturn]] void refuse(const std::string& address) {
  throw ConfigError(text("expected HOST:PORT with a port of 0 to ", UINT16_MAX,
                         " (IPv6: [ADDRESS]:PORT), got \"", address, '"'));
}

}  // namespace

HostPort parse_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse(address);
  HostPort out{.host = address.substr(0, colon), .port = 0};
  const bool bracketed = out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']';
  if (bracketed) out.host = out.host.substr(1, out.host.size() - 2);
  if (!bracketed && out.host.find_first_of(":[]") != std::string::npos) refuse(address);
  const char* begin = address.data() + colon + 1;
  const char* end = address.data() + address.size();
  const auto [stopped, fault] = std::from_chars(begin, end, out.port);
  if (fault != std::errc{} || stopped != end) refuse(address);
  return out;
}

std::string to_string(const HostPort& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace poseidon::comm
