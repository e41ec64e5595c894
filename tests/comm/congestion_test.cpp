// The congestion control algorithm of a connection.

#include "comm/asio/congestion.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

using namespace poseidon::comm;

namespace {

struct Socket {
  Socket() : number(socket(AF_INET, SOCK_STREAM, 0)) { REQUIRE(number >= 0); }
  ~Socket() { close(number); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool set(const std::string& name) {
    return setsockopt(number, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
  }
  std::string get() {
    char name[16] = {};
    socklen_t size = sizeof name;
    REQUIRE(getsockopt(number, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
    return {name, strnlen(name, size)};
  }

  const int number;
};

}  // namespace

TEST_CASE("a connection within a host uses reno congestion control") {
  Socket socket;
  choose_congestion_control(socket.number, false);
  CHECK(socket.get() == "reno");
}

TEST_CASE("a connection between hosts keeps the system's congestion control, unless it is BBR") {
  for (const char* system : {"reno", "cubic", "bbr"}) {
    Socket socket;
    if (!socket.set(system)) continue;  // not in this kernel, or not permitted
    CAPTURE(system);
    choose_congestion_control(socket.number, true);
    if (std::string(system) == "bbr")
      CHECK((socket.get() == "cubic" || socket.get() == "reno"));
    else
      CHECK(socket.get() == system);
  }
}
