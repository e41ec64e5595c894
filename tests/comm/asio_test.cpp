#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

#include "core/error.h"
#include "tests/comm/asio_node.h"
#include "tests/support/ipv6.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

const Secret kSecret(24, std::byte{0x5a});

AsioOptions server_options() {
  AsioOptions options;
  options.listen = "127.0.0.1:0";
  options.self = {.role = Role::kServer, .rank = 1, .view = 4, .address = ""};
  options.secret = kSecret;
  return options;
}

AsioOptions worker_options() {
  AsioOptions options;
  options.self = {.role = Role::kWorker, .rank = 2, .view = 4, .address = ""};
  options.secret = kSecret;
  return options;
}

/// A worker and a server, connected by a TCP socket.
struct SocketPair : Pair {
  explicit SocketPair(const AsioOptions& servers = server_options(),
                      const AsioOptions& workers = worker_options())
      : Pair(servers, workers) {}
};

std::vector<uint32_t> chunks_of(const Node::Events& events) {
  std::vector<uint32_t> out;
  for (const auto& frame : events.frames) out.push_back(frame.header.chunk);
  return out;
}

}  // namespace

TEST_CASE("both ends of a connection receive the peer's role, rank, view and address") {
  SocketPair pair;
  const PeerIdentity server = pair.worker.events().opened[0].second;
  CHECK(server.role == Role::kServer);
  CHECK(server.rank == 1);
  CHECK(server.view == 4);
  CHECK(server.address == pair.server.address());
  const PeerIdentity worker = pair.server.events().opened[0].second;
  CHECK(worker.role == Role::kWorker);
  CHECK(worker.rank == 2);
  CHECK(worker.address.starts_with("127.0.0.1:"));
  CHECK(pair.worker.events().opened[0].first == pair.at_worker);
}

TEST_CASE("connections over IPv6 carry frames, and an IPv4 peer of [::] has an IPv4 address") {
  if (!has_ipv6()) return;
  AsioOptions servers = server_options();
  servers.listen = "[::1]:0";
  SocketPair near(servers);
  CHECK(near.server.address().starts_with("[::1]:"));
  CHECK(near.worker.events().opened[0].second.address == near.server.address());
  CHECK(near.server.events().opened[0].second.address.starts_with("[::1]:"));
  check_frames_both_ways(near.server, near.at_server, near.worker, near.at_worker);

  servers.listen = "[::]:0";
  Node server(servers);
  const uint16_t port = parse_address(server.address()).port;
  CHECK(server.address() == text("[::]:", port));
  Node worker(worker_options());
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    CAPTURE(host);
    worker.connect(text(host, ":", port));
    REQUIRE(worker.wait_open(std::string(host) == "[::1]" ? 2 : 1));
    CHECK(worker.events().opened.back().second.address == text(host, ":", port));
  }
  REQUIRE(server.wait_open(2));
  CHECK(server.events().opened[0].second.address.starts_with("127.0.0.1:"));
  CHECK(server.events().opened[1].second.address.starts_with("[::1]:"));
}

TEST_CASE("a transport starts its machine once, before it admits any peer") {
  SocketPair pair;
  for (const Node::Events& events : {pair.server.events(), pair.worker.events()}) {
    CHECK(events.begun == 1);
    CHECK(events.early == 0);
  }
}

TEST_CASE("the I/O thread runs with scheduling policy SCHED_BATCH") {
  Node node(worker_options());
  int policy = -1;
  node.run([&] { policy = sched_getscheduler(0); });
  const int own = sched_getscheduler(0);
  CHECK(policy == (own == SCHED_OTHER ? SCHED_BATCH : own));
}

TEST_CASE("a handshake presents the identity that present_as() has set") {
  Node server(server_options());
  server.run([&] {
    server.transport().present_as({.role = Role::kServer, .rank = 5, .view = 4, .address = ""});
  });
  Node worker(worker_options());
  worker.connect(server.address(), {Role::kServer, 5});
  REQUIRE(worker.wait_open());
  CHECK(worker.events().opened[0].second.rank == 5);
  CHECK(worker.events().opened[0].second.view == 4);
}

TEST_CASE("frames arrive complete and in order, in both directions") {
  SocketPair pair;
  check_frames_both_ways(pair.server, pair.at_server, pair.worker, pair.at_worker);
  CHECK(pair.server.events().heard > 0);
}

TEST_CASE("a more urgent frame overtakes queued frames") {
  Node server(server_options());
  BareSocket peer(server.address());
  peer.shake_hands(kSecret);
  REQUIRE(server.wait_open());
  const ConnectionId id = server.events().opened[0].first;
  constexpr uint32_t kSlices = 40;
  for (uint32_t i = 0; i < kSlices; ++i)
    server.send(id, header_of(FrameKind::kSum, i), pattern(kSliceBytes, 1), bulk_priority(9));
  std::this_thread::sleep_for(20ms);  // the peer does not read: the socket buffers are full
  server.send(id, header_of(FrameKind::kSum, 1000), pattern(kSliceBytes, 2), bulk_priority(1));
  server.send(id, header_of(FrameKind::kHeartbeat, 2000), {}, kUrgent);
  std::vector<uint32_t> order;
  while (order.size() < kSlices + 2) {
    const auto frame = peer.receive_frame();
    REQUIRE(frame);
    order.push_back(frame->first.chunk);
  }
  const auto urgent = std::find(order.begin(), order.end(), 2000u);
  REQUIRE(urgent != order.end());
  CHECK(urgent - order.begin() < 20);  // frames in the kernel's buffers, and one slice
  CHECK(*(urgent + 1) == 1000);
  order.erase(urgent, urgent + 2);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a body without a destination is dropped, and the next frame arrives") {
  SocketPair pair;
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 99), pattern(100000, 1), 1);
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 3), pattern(50, 2), 1);
  REQUIRE(pair.server.wait_frames(1));
  CHECK(chunks_of(pair.server.events()) == std::vector<uint32_t>{3});
}

TEST_CASE("slices may arrive in fragments, with or without a destination") {
  Node server(server_options());
  BareSocket peer(server.address());
  peer.shake_hands(kSecret);
  REQUIRE(server.wait_open());
  Bytes stream;
  for (uint32_t chunk : {1u, 99u, 2u}) {  // 99 is dropped
    const Bytes frame =
        peer.sealed(header_of(FrameKind::kContribution, chunk), pattern(kSliceBytes, 1));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  constexpr size_t kDrop = 90'001;
  for (size_t sent = 0; sent < stream.size(); sent += kDrop) {
    peer.send(std::span(stream).subspan(sent, std::min(kDrop, stream.size() - sent)));
    std::this_thread::sleep_for(5ms);
  }
  REQUIRE(server.wait_frames(2));
  CHECK(chunks_of(server.events()) == std::vector<uint32_t>{1, 2});
}

TEST_CASE("a frame that violates the format ends the connection with a reason") {
  Node server(server_options());
  BareSocket peer(server.address());
  peer.shake_hands(kSecret);
  REQUIRE(server.wait_open());
  SUBCASE("a modified body") {
    Bytes frame = peer.sealed(header_of(FrameKind::kContribution), pattern(5000, 1));
    frame.back() ^= std::byte{1};
    peer.send(frame);
    CHECK(server.why_closed() == "the authentication code of a contribution frame's body is wrong");
  }
  SUBCASE("a modified header") {
    Bytes frame = peer.sealed(header_of(FrameKind::kContribution), pattern(5000, 1));
    frame[20] ^= std::byte{1};
    peer.send(frame);
    CHECK(server.why_closed() == "the authentication code of a frame's header is wrong");
  }
  SUBCASE("a length above the cap, before memory is requested") {
    peer.send(
        peer.sealed_header(header_of(FrameKind::kContribution, 0, kMaxContributionBytes + 1)));
    CHECK(server.why_closed() ==
          "a contribution frame announces 524545 bytes, expected at most 524544");
  }
  SUBCASE("a handshake frame after the handshake") {
    peer.send(peer.sealed(header_of(FrameKind::kHello), pattern(48, 1)));
    CHECK(server.why_closed() == "unexpected hello frame after the handshake");
  }
  SUBCASE("the peer closes within a body") {
    peer.send(peer.sealed_header(header_of(FrameKind::kContribution, 0, 1000)));
    peer.send(pattern(500, 1));
    peer.close();
    CHECK(server.why_closed() ==
          "connection closed by the peer, in the middle of the body of a contribution frame");
  }
  SUBCASE("the peer closes between frames") {
    peer.close();
    CHECK(server.why_closed() == "connection closed by the peer");
  }
  CHECK(server.events().frames.empty());
}

TEST_CASE("a peer without the right secret is refused") {
  Node server(server_options());
  AsioOptions options = worker_options();
  SUBCASE("another secret") {
    options.secret = Secret(24, std::byte{1});
    Node worker(options);
    worker.connect(server.address());
    CHECK(worker.why_closed() ==
          "the two ends have different secrets: use the same secret file on both");
  }
  SUBCASE("none") {
    options.secret.clear();
    Node worker(options);
    worker.connect(server.address());
    CHECK(worker.why_closed() ==
          "refused by the peer: one end has a secret and the other has none: use the same secret "
          "file on both");
  }
  CHECK(server.events().opened.empty());
  CHECK(server.events().closed.empty());
}

TEST_CASE("a peer that does not begin with a hello frame receives the reason for the refusal") {
  Node server(server_options());
  BareSocket stranger(server.address());
  stranger.send(frame_of(header_of(FrameKind::kHeartbeat), {}));
  const auto refusal = stranger.receive_frame();
  REQUIRE(refusal);
  CHECK(refusal->first.kind == FrameKind::kRefusal);
  const std::string_view words(reinterpret_cast<const char*>(refusal->second.data()),
                               refusal->second.size());
  CHECK(words == "expected a hello frame, got a heartbeat frame");
  CHECK_FALSE(stranger.receive_frame());
}

TEST_CASE("control characters of a peer's refusal are replaced") {
  const BareSocket listener = BareSocket::listening();
  Node worker(worker_options());
  worker.connect(listener.address());
  const BareSocket peer = listener.accept();
  peer.send(
      frame_of(header_of(FrameKind::kRefusal), {std::byte{'n'}, std::byte{27}, std::byte{'o'}}));
  CHECK(worker.why_closed() == "refused by the peer: n?o");
}

TEST_CASE("silent and slow unauthenticated peers are dropped at the handshake deadline") {
  AsioOptions options = server_options();
  options.limits.handshake = 60ms;
  Node server(options);
  const BareSocket silent(server.address()), slow(server.address());
  const Bytes hello = frame_of(header_of(FrameKind::kHello), pattern(48, 1));
  for (size_t i = 0; i < 5; ++i) {
    slow.send(std::span(hello).subspan(i, 1));
    std::this_thread::sleep_for(5ms);
  }
  CHECK(silent.receive(1).empty());
  CHECK(slow.receive(1).empty());
  CHECK(server.events().closed.empty());
}

TEST_CASE("above the limit of unauthenticated connections, the oldest one is dropped") {
  AsioOptions options = server_options();
  options.limits.unauthenticated = 2;
  Node server(options);
  const BareSocket first(server.address());
  BareSocket second(server.address());
  const BareSocket third(server.address());
  CHECK(first.receive(1).empty());
  second.shake_hands(kSecret);
  REQUIRE(server.wait_open());
}

TEST_CASE("a flood from one host displaces only that host's unauthenticated connections") {
  AsioOptions options = server_options();
  options.limits.unauthenticated = 4;
  Node server(options);
  BareSocket slow_member(server.address());
  std::vector<BareSocket> flood;
  for (int i = 0; i < 20; ++i) flood.emplace_back(server.address(), "127.0.0.2");
  CHECK(flood[10].receive(1).empty());
  slow_member.shake_hands(kSecret);
  CHECK(server.wait_open());
}

TEST_CASE("a connection that cannot be established reports the reason") {
  AsioOptions options = worker_options();
  options.limits.handshake = 60ms;
  Node worker(options);
  SUBCASE("no process listens") {
    const std::string address = BareSocket::listening().address();
    worker.connect(address);
    CHECK(worker.why_closed() == "connection refused");
  }
  SUBCASE("a malformed address") {
    worker.connect("gpu3");
    CHECK(worker.why_closed().starts_with("expected HOST:PORT with a port"));
  }
  SUBCASE("the peer does not answer") {
    const BareSocket listener = BareSocket::listening();
    worker.connect(listener.address());
    CHECK(worker.why_closed() == "no handshake within 0.06 s");
  }
}

TEST_CASE("close() sends urgent frames, drops bulk frames, and notifies only the peer") {
  SocketPair pair;
  // In one task of the I/O thread, so that no frame is in transit at close().
  pair.worker.run([&] {
    const Bytes urgent = pattern(1000, 1), bulk = pattern(kSliceBytes, 2);
    AsioTransport& transport = pair.worker.transport();
    transport.send(pair.at_worker, header_of(FrameKind::kContribution, 1),
                   {.bytes = bulk, .owner = {}}, bulk_priority(0));
    transport.send(pair.at_worker, header_of(FrameKind::kControl, 2),
                   {.bytes = urgent, .owner = {}}, kUrgent);
    transport.close(pair.at_worker);
    transport.send(pair.at_worker, header_of(FrameKind::kControl, 3), {}, kUrgent);
  });
  CHECK(pair.server.why_closed() == "connection closed by the peer");
  CHECK(chunks_of(pair.server.events()) == std::vector<uint32_t>{2});
  CHECK(pair.server.events().frames.at(0).body == pattern(1000, 1));
  CHECK(pair.worker.events().closed.empty());
}

TEST_CASE("a machine may close a connection in its callback for a frame") {
  SocketPair pair;
  for (uint32_t chunk : {1u, 55u, 2u})
    pair.worker.send(pair.at_worker, header_of(FrameKind::kControl, chunk), pattern(10, 1), 0);
  CHECK(pair.worker.why_closed() == "connection closed by the peer");
  CHECK(chunks_of(pair.server.events()) == std::vector<uint32_t>{1, 55});
  CHECK(pair.server.events().closed.empty());
}

TEST_CASE("the transport does not read the machine's memory after close()") {
  Node server(server_options());
  BareSocket peer(server.address());
  peer.shake_hands(kSecret);
  REQUIRE(server.wait_open());
  const ConnectionId id = server.events().opened[0].first;
  {
    std::vector<Bytes> bodies(16, pattern(kSliceBytes, 1));
    server.run([&] {
      for (const Bytes& body : bodies)
        server.transport().send(id, header_of(FrameKind::kSum), {.bytes = body, .owner = {}}, 1);
    });
    std::this_thread::sleep_for(20ms);
    server.run([&] { server.transport().close(id); });
    for (Bytes& body : bodies) std::fill(body.begin(), body.end(), std::byte{0});
  }
  size_t frames = 0;
  while (peer.receive_frame()) ++frames;  // the seal of each frame matches the original body
  CHECK(frames >= 1);
  CHECK(frames < 16);
}

TEST_CASE("posted functions run in the I/O thread, those of one thread in order") {
  Node node(server_options());
  std::vector<int> last(4, -1);  // touched by the I/O thread only
  bool in_order = true;
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < last.size(); ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i)
          node.transport().post([&, t, i] {
            in_order = in_order && last[t] == i - 1;
            last[t] = i;
          });
      });
  }
  node.run([] {});
  CHECK(in_order);
  CHECK(last == std::vector<int>(4, 499));
}

TEST_CASE("wake_at() wakes a machine once, at the earliest requested time") {
  Node node(server_options());
  AsioTransport& transport = node.transport();
  const Time begin = transport.now();
  node.run([&] {
    transport.wake_at(begin + 10s);
    transport.wake_at(begin + 30ms);
    transport.wake_at(begin + 20s);
  });
  REQUIRE(node.wait([](const Node::Events& events) { return events.wakes > 0; }));
  CHECK(transport.now() - begin >= 30ms);
  std::this_thread::sleep_for(20ms);
  CHECK(node.events().wakes == 1);
  node.run([&] { transport.wake_at(transport.now() - 1s); });
  CHECK(node.wait([](const Node::Events& events) { return events.wakes == 2; }));
}

TEST_CASE("listening beyond loopback needs a secret or --insecure") {
  AsioOptions options = server_options();
  options.listen = "0.0.0.0:0";
  options.secret.clear();
  CHECK_THROWS_WITH_AS(
      AsioTransport{options},
      "cannot listen at 0.0.0.0:0 without a secret, because this is not a loopback address: set "
      "--secret-file or --tls-certificate, or --insecure on an isolated network",
      ConfigError);
  options.insecure = true;
  const auto log = std::make_shared<WarningLog>();
  options.log = log;
  CHECK(AsioTransport(options).address().starts_with("0.0.0.0:"));
  CHECK(log->lines() ==
        "--insecure: any process that can reach 0.0.0.0:0 can join this job, read its model and "
        "data paths, and change its values");
  options.insecure = false;
  options.secret = kSecret;
  CHECK(AsioTransport(options).address().starts_with("0.0.0.0:"));
}

TEST_CASE("a failure to listen names the address and the reason") {
  const AsioTransport first(server_options());
  AsioOptions options = server_options();
  options.listen = first.address();
  CHECK_THROWS_WITH_AS(AsioTransport{options},
                       ("cannot listen at " + first.address() + ": Address already in use").c_str(),
                       RunError);
  options.listen = "localhost";
  CHECK_THROWS_AS(AsioTransport{options}, ConfigError);
}

TEST_CASE("a transport stops with connections in any state") {
  const BareSocket listener = BareSocket::listening();
  const BareSocket mute = [&] {
    Node server(server_options());
    Node worker(worker_options());
    worker.connect(server.address());       // open
    worker.connect(listener.address());     // waits for a challenge
    worker.connect("127.0.0.1:1");          // refused, or about to be
    BareSocket stranger(server.address());  // has not sent anything
    REQUIRE(worker.wait_open());
    REQUIRE(server.wait_open());
    const ConnectionId id = server.events().opened[0].first;
    for (int i = 0; i < 20; ++i)
      server.send(id, header_of(FrameKind::kSum), pattern(kSliceBytes, i), 1);
    worker.transport().stop();
    worker.transport().stop();
    return stranger;
  }();
  CHECK(mute.receive(1).empty());
}

TEST_CASE("stop() sends urgent frames first") {
  Node server(server_options());
  {
    Node worker(worker_options());
    const ConnectionId id = worker.connect(server.address());
    REQUIRE(worker.wait_open());
    worker.send(id, header_of(FrameKind::kControl, 5), pattern(100000, 1), kUrgent);
  }
  CHECK(server.why_closed() == "connection closed by the peer");
  CHECK(chunks_of(server.events()) == std::vector<uint32_t>{5});
}

TEST_CASE("an exception of a machine is passed to on_failure") {
  std::promise<std::string> said;
  AsioOptions options = server_options();
  options.on_failure = [&](std::exception_ptr failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      said.set_value(error.what());
    }
  };
  AsioOptions workers = worker_options();
  workers.limits.linger = 20ms;  // the other end is never closed
  SocketPair pair(options, workers);
  pair.worker.send(pair.at_worker, header_of(FrameKind::kControl, 66), pattern(1, 1), kUrgent);
  CHECK(said.get_future().get() == "chunk 66");
}
