// The congestion control of connections: the decision, one socket, and a transport.

#include "comm/asio/congestion.h"

#include <netinet/tcp.h>

#include "tests/comm/asio_node.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

using Names = std::vector<std::string>;

std::string control_of(int socket) {
  char name[16] = {};
  socklen_t size = sizeof name;
  REQUIRE(getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
  return {name, strnlen(name, size)};
}

bool set(int socket, const std::string& name) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                    static_cast<socklen_t>(name.size())) == 0;
}

/// A TCP socket, connected over loopback. Its round trip is short.
struct Connected {
  Connected() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* at = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener, at, size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, at, &size) == 0);
    REQUIRE(connect(number, at, size) == 0);
  }
  ~Connected() {
    close(number);
    close(listener);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int number = socket(AF_INET, SOCK_STREAM, 0);
};

/// The congestion control of this process's connection to a port; "": there is no such connection.
std::string control_of_connection_to(uint16_t port) {
  for (int number = 0; number < 1024; ++number) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(number, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
      return control_of(number);
  }
  return "";
}

}  // namespace

TEST_CASE("a connection between hosts leaves BBR only where the round trip is short") {
  const auto tried = [](const char* system, std::optional<std::chrono::microseconds> round_trip) {
    return congestion_controls(CongestionControl::kAuto, system, round_trip);
  };
  CHECK(tried("bbr", 1999us) == Names{"cubic", "reno", "bbr"});
  CHECK(tried("bbr2", 100us) == Names{"cubic", "reno", "bbr2"});
  CHECK(tried("bbr", 2000us) == Names{"bbr"});
  CHECK(tried("bbr", 50ms) == Names{"bbr"});
  CHECK(tried("bbr", {}) == Names{"bbr"});
  CHECK(tried("cubic", 100us) == Names{"cubic"});
  CHECK(tried("cubic", 50ms) == Names{"cubic"});
}

TEST_CASE("comm.congestion_control overrides the round trip") {
  for (const std::chrono::microseconds round_trip : {100us, 50000us}) {
    const auto tried = [&](CongestionControl setting) {
      return congestion_controls(setting, "bbr", round_trip);
    };
    CHECK(tried(CongestionControl::kSystem) == Names{"bbr"});
    CHECK(tried(CongestionControl::kBbr) == Names{"bbr"});
    CHECK(tried(CongestionControl::kCubic) == Names{"cubic"});
    CHECK(tried(CongestionControl::kReno) == Names{"reno"});
  }
}

TEST_CASE("a connection within a host uses Reno, whatever the setting") {
  Connected socket;
  SocketCongestion congestion;
  congestion.begin(socket.number, false);
  congestion.update(CongestionControl::kSystem, SocketCongestion::Clock::now());
  CHECK(control_of(socket.number) == "reno");
  CHECK_FALSE(congestion.is_long());
}

TEST_CASE("a socket to a near host leaves BBR, and keeps another congestion control") {
  for (const char* system : {"reno", "cubic", "bbr"}) {
    Connected socket;
    if (!set(socket.number, system)) continue;  // not in this kernel, or not permitted
    CAPTURE(system);
    SocketCongestion congestion;
    congestion.begin(socket.number, true);
    CHECK(control_of(socket.number) == system);
    CHECK(congestion.is_long());  // until the round trip is measured
    congestion.update(CongestionControl::kAuto, SocketCongestion::Clock::now());
    CHECK_FALSE(congestion.is_long());
    if (std::string(system) == "bbr")
      CHECK((control_of(socket.number) == "cubic" || control_of(socket.number) == "reno"));
    else
      CHECK(control_of(socket.number) == system);
  }
}

TEST_CASE("an open connection follows a new setting a second later") {
  Connected socket;
  SocketCongestion congestion;
  congestion.begin(socket.number, true);
  const std::string system = control_of(socket.number);
  const auto now = SocketCongestion::Clock::now();
  congestion.update(CongestionControl::kReno, now);
  CHECK(control_of(socket.number) == "reno");
  congestion.update(CongestionControl::kSystem, now + 999ms);
  CHECK(control_of(socket.number) == "reno");
  congestion.update(CongestionControl::kSystem, now + 1s);
  CHECK(control_of(socket.number) == system);
}

TEST_CASE("a congestion control that the host does not permit is replaced after a warning") {
  WarningLog log;
  CHECK(permitted(CongestionControl::kReno, log) == CongestionControl::kReno);
  CHECK(permitted(CongestionControl::kAuto, log) == CongestionControl::kAuto);
  CHECK(log.lines() == "");
  Connected socket;
  const std::string system = control_of(socket.number);
  const bool has_bbr = set(socket.number, "bbr");
  const CongestionControl got = permitted(CongestionControl::kBbr, log);
  CHECK(got == (has_bbr ? CongestionControl::kBbr : CongestionControl::kSystem));
  if (!has_bbr)
    CHECK(log.lines() ==
          "comm.congestion_control \"bbr\" is not permitted on this host, which uses \"" + system +
              "\"; load the kernel module tcp_bbr, and add bbr to "
              "net.ipv4.tcp_allowed_congestion_control");
}

TEST_CASE("a transport sets the congestion control of its connections to other hosts") {
  AsioOptions servers;
  servers.self = {.role = Role::kServer, .rank = 1, .view = 1, .address = ""};
  AsioOptions workers;
  workers.self = {.role = Role::kWorker, .rank = 0, .view = 1, .address = ""};
  workers.congestion_control = CongestionControl::kCubic;
  Connected probe;
  if (!set(probe.number, "cubic")) return;
  // Both ends have equal addresses, as within a host, only with the first one.
  for (const auto& [listen, expected] :
       {std::pair{"127.0.0.1:0", "reno"}, std::pair{"127.0.0.2:0", "cubic"}}) {
    servers.listen = listen;
    Pair pair(servers, workers);
    CHECK(control_of_connection_to(parse_address(pair.server.address()).port) == expected);
  }
}
