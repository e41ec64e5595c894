#include "comm/asio/congestion.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

std::string present(tcp::socket& socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  ::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size);
  return {name.data(), ::strnlen(name.data(), size)};
}

bool take(tcp::socket& socket, std::string_view name) {
  return ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

}  // namespace

void choose_congestion_control(tcp::socket& socket, bool leaves_host) {
  if (leaves_host && !present(socket).starts_with("bbr")) return;
  // Without any of them things are only slower.
  if (!leaves_host || !take(socket, "cubic")) take(socket, "reno");
}

}  // namespace poseidon::comm
