// By which congestion control a connection goes.

#include "comm/asio/congestion.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace poseidon::comm;

namespace {

struct Socket {
  Socket() { socket.open(asio::ip::tcp::v4()); }

  bool set(const std::string& name) {
    return setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
  }
  std::string get() {
    char name[16] = {};
    socklen_t size = sizeof name;
    REQUIRE(getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
    return {name, strnlen(name, size)};
  }

  asio::io_context context;
  asio::ip::tcp::socket socket{context};
};

}  // namespace

TEST_CASE("within a host nothing is paced") {
  Socket socket;
  choose_congestion_control(socket.socket, false);
  CHECK(socket.get() == "reno");
}

TEST_CASE("between hosts the system's choice stays, unless it is BBR") {
  for (const char* system : {"reno", "cubic", "bbr"}) {
    Socket socket;
    if (!socket.set(system)) continue;  // not in this kernel, or not allowed
    CAPTURE(system);
    choose_congestion_control(socket.socket, true);
    if (std::string(system) == "bbr")
      CHECK((socket.get() == "cubic" || socket.get() == "reno"));
    else
      CHECK(socket.get() == system);
  }
}
