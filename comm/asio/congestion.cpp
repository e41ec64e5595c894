#include "comm/asio/congestion.h"

#include <array>
#include <asio.hpp>  // with the system's socket options
#include <cstring>
#include <string>
#include <string_view>

namespace poseidon::comm {

namespace {

std::string present(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size);
  return {name.data(), ::strnlen(name.data(), size)};
}

bool take(int socket, std::string_view name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

}  // namespace

void choose_congestion_control(int socket, bool leaves_host) {
  if (leaves_host && !present(socket).starts_with("bbr")) return;
  // If neither CUBIC nor Reno is permitted, the connection keeps the system's choice.
  if (!leaves_host || !take(socket, "cubic")) take(socket, "reno");
}

}  // namespace poseidon::comm
