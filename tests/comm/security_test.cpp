// Tests each statement of docs/security.md about strangers, relayed messages and attackers in the
// middle of a connection.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "core/error.h"
#include "tests/comm/asio_node.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

const Secret kSecret(24, std::byte{0x5a});
const JobId kJob{std::byte{7}};
constexpr NodeId kCoordinator{}, kServer1{Role::kServer, 1};
constexpr const char* kHeaderChanged = "the authentication code of a frame's header is wrong";
constexpr const char* kBodyChanged =
    "the authentication code of a contribution frame's body is wrong";

AsioOptions options_of(const PeerIdentity& self, bool listens) {
  AsioOptions options;
  if (listens) options.listen = "127.0.0.1:0";
  options.self = self;
  options.secret = kSecret;
  return options;
}

PeerIdentity identity(Role role, int32_t rank, uint32_t view = 1, const JobId& job = kJob) {
  return {.role = role, .rank = rank, .view = view, .job = job, .address = ""};
}
PeerIdentity joining() { return identity(Role::kWorker, -1, 0, {}); }

AsioOptions server() { return options_of(identity(Role::kServer, 1), true); }

/// A server and an authenticated worker. The test is an attacker that can change the bytes between
/// them.
struct Tapped {
  Tapped() { peer.shake_hands(kSecret, identity(Role::kWorker, 0)); }
  Bytes contribution(uint32_t chunk) {
    return peer.sealed(header_of(FrameKind::kContribution, chunk), pattern(5000, 1));
  }
  /// The reason for which the server closes the connection after `bytes`, and the number of frames
  /// accepted before.
  std::pair<std::string, size_t> after(const Bytes& bytes) {
    peer.send(bytes);
    std::string why = node.why_closed();
    return {why, node.events().frames.size()};
  }
  Node node{server()};
  BareSocket peer{node.address()};
};

using Fate = std::pair<std::string, size_t>;

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The reason why a connection fails: a node that listens as `callee`, called as `called` by a node
/// that is `caller`.
std::string refusal_of(const PeerIdentity& caller, NodeId called, const PeerIdentity& callee) {
  Node listener(options_of(callee, true)), node(options_of(caller, false));
  node.connect(listener.address(), called);
  const std::string why = node.why_closed();
  CHECK(node.events().opened.empty());
  CHECK(listener.events().opened.empty());
  return why;
}

std::string words(const Bytes& body) {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

}  // namespace

TEST_CASE("security: a daemon's hello that is relayed to another node is refused") {
  const BareSocket stranger = BareSocket::listening();
  Node daemon(options_of(joining(), true)), other(server());
  for (Node* asked : {&daemon, &other}) {
    daemon.connect(stranger.address(), kCoordinator);
    BareSocket called = stranger.accept();
    const auto hello = called.receive_frame();
    REQUIRE(hello);
    BareSocket relay(asked->address());
    relay.send(frame_of(hello->first, hello->second));
    const auto answer = relay.receive_frame();
    REQUIRE(answer);
    CHECK(answer->first.kind == FrameKind::kRefusal);
    CHECK(words(answer->second).starts_with("the coordinator was called, this is "));
    called.send(frame_of(answer->first, answer->second));
  }
  REQUIRE(daemon.wait([](const Node::Events& events) { return events.closed.size() == 2; }));
  CHECK(daemon.events().opened.empty());
  CHECK(other.events().opened.empty());
}

TEST_CASE("security: a node's own hello or proof is rejected when it is reflected") {
  const BareSocket stranger = BareSocket::listening();
  Node worker(options_of(identity(Role::kWorker, 0), false));
  worker.connect(stranger.address(), kServer1);
  BareSocket called = stranger.accept();
  const auto hello = called.receive_frame();
  REQUIRE(hello);
  Bytes echo = hello->second;
  SUBCASE("the hello alone") {}
  SUBCASE("the hello with an arbitrary proof") { echo.resize(echo.size() + 32); }
  called.send(frame_of(header_of(FrameKind::kChallenge), echo));
  CHECK(worker.why_closed() ==
        "the two ends have different secrets: use the same secret file on both");

  Node node(server());
  BareSocket caller(node.address());
  caller.send(frame_of(header_of(FrameKind::kHello), hello->second));
  const auto challenge = caller.receive_frame();
  REQUIRE(challenge);
  REQUIRE(challenge->first.kind == FrameKind::kChallenge);
  const Bytes proof(challenge->second.end() - 32, challenge->second.end());
  caller.send(frame_of(header_of(FrameKind::kProof), proof));
  const auto answer = caller.receive_frame();
  REQUIRE(answer);
  CHECK(words(answer->second) ==
        "the two ends have different secrets: use the same secret file on both");
  CHECK(node.events().opened.empty());
}

TEST_CASE("security: a replayed handshake is refused") {
  const Initiator worker(kSecret, identity(Role::kWorker, 0), kServer1, make_nonce());
  const Bytes hello(worker.hello().begin(), worker.hello().end());
  Node node(server());
  Bytes proof;
  for (const bool again : {false, true}) {
    BareSocket caller(node.address());
    caller.send(frame_of(header_of(FrameKind::kHello), hello));
    const auto challenge = caller.receive_frame();
    REQUIRE(challenge);
    if (!again) proof = worker.challenge(challenge->second).reply;
    caller.send(frame_of(header_of(FrameKind::kProof), proof));
    if (again) CHECK(caller.receive_frame()->first.kind == FrameKind::kRefusal);
    if (!again) REQUIRE(node.wait_open());
  }
  CHECK(node.events().opened.size() == 1);
}

TEST_CASE("security: a hello with a wrong role, rank, view or job is refused") {
  const PeerIdentity callee = identity(Role::kServer, 1);
  const auto from = [&](const PeerIdentity& caller) {
    return refusal_of(caller, kServer1, callee);
  };
  CHECK(from(identity(Role::kWorker, 0, 999)) ==
        "refused by the peer: worker 0 has view 999, server 1 has view 1");
  CHECK(from(identity(Role::kWorker, 0, 1, JobId{std::byte{8}})) ==
        "refused by the peer: worker 0 belongs to another job than server 1");
  CHECK(from(joining()) ==
        "refused by the peer: a worker without a rank may connect only to the coordinator");
  CHECK(from(identity(Role::kCoordinator, 0)) ==
        "refused by the peer: a coordinator may not connect to a node");
  CHECK(refusal_of(identity(Role::kWorker, 0), {Role::kServer, 0}, callee) ==
        "refused by the peer: server 0 was called, this is server 1");
  CHECK(refusal_of(joining(), kCoordinator, callee) ==
        "refused by the peer: the coordinator was called, this is server 1");
}

TEST_CASE("security: a relay of a complete handshake cannot send a valid frame") {
  Node head(options_of(identity(Role::kCoordinator, 0), true));
  const BareSocket stranger = BareSocket::listening();
  Node daemon(options_of(joining(), true));
  daemon.connect(stranger.address(), kCoordinator);
  BareSocket to_daemon = stranger.accept(), to_head(head.address());
  const auto pass = [](BareSocket& from, const BareSocket& to) {
    const auto frame = from.receive_frame();
    REQUIRE(frame);
    to.send(frame_of(frame->first, frame->second));
  };
  pass(to_daemon, to_head);
  pass(to_head, to_daemon);
  pass(to_daemon, to_head);
  REQUIRE(daemon.wait_open());
  REQUIRE(head.wait_open());
  to_daemon.send(frame_of(header_of(FrameKind::kControl), pattern(10, 1)));
  CHECK(daemon.why_closed() == kHeaderChanged);
  to_head.send(frame_of(header_of(FrameKind::kControl), pattern(10, 1)));
  CHECK(head.why_closed() == kHeaderChanged);
  CHECK(daemon.events().frames.empty());
  CHECK(head.events().frames.empty());
}

TEST_CASE("security: a frame with a modified header ends the connection") {
  for (size_t at : {6, 8, 12, 16, 24, 28, 32, 40, 48, 56}) {
    CAPTURE(at);
    Tapped tapped;
    Bytes frame = tapped.contribution(1);
    frame[at] ^= std::byte{1};
    CHECK(tapped.after(frame) == Fate{kHeaderChanged, 0});
  }
}

TEST_CASE("security: a frame with a modified body ends the connection") {
  for (size_t at : {64, 64 + 511, 5063}) {
    CAPTURE(at);
    Tapped tapped;
    Bytes frame = tapped.contribution(1);
    frame[at] ^= std::byte{1};
    CHECK(tapped.after(frame) == Fate{kBodyChanged, 0});
  }
}

TEST_CASE("security: a replayed frame ends the connection") {
  Tapped tapped;
  const Bytes frame = tapped.contribution(1);
  CHECK(tapped.after(frame + frame) == Fate{kHeaderChanged, 1});
}

TEST_CASE("security: reordered frames end the connection") {
  Tapped tapped;
  const Bytes first = tapped.contribution(1), second = tapped.contribution(2);
  CHECK(tapped.after(second + first) == Fate{kHeaderChanged, 0});
}

TEST_CASE("security: a missing frame ends the connection") {
  Tapped tapped;
  const Bytes first = tapped.contribution(1), second = tapped.contribution(2),
              third = tapped.contribution(3);
  CHECK(tapped.after(first + third) == Fate{kHeaderChanged, 1});
}

TEST_CASE("security: a body with the header of another frame ends the connection") {
  Tapped tapped;
  const Bytes first = tapped.contribution(1),
              second = tapped.peer.sealed(header_of(FrameKind::kContribution, 1), pattern(5000, 2));
  const Bytes mixed = Bytes(first.begin(), first.begin() + kHeaderBytes) +
                      Bytes(second.begin() + kHeaderBytes, second.end());
  CHECK(tapped.after(mixed) == Fate{kBodyChanged, 0});
}

TEST_CASE("security: a frame without a valid key ends the connection") {
  Tapped tapped;
  CHECK(tapped.after(frame_of(header_of(FrameKind::kContribution), pattern(10, 1))) ==
        Fate{kHeaderChanged, 0});
}

TEST_CASE("security: a frame sealed for another connection ends the connection") {
  Tapped tapped;
  BareSocket other(tapped.node.address());
  other.shake_hands(kSecret, identity(Role::kWorker, 0));
  CHECK(tapped.after(other.sealed(header_of(FrameKind::kContribution), pattern(10, 1))) ==
        Fate{kHeaderChanged, 0});
}

TEST_CASE("security: a frame reflected to its sender ends the connection") {
  Tapped tapped;
  REQUIRE(tapped.node.wait_open());
  tapped.node.send(tapped.node.events().opened[0].first, header_of(FrameKind::kSum), pattern(10, 1),
                   1);
  CHECK(tapped.after(tapped.peer.receive(kHeaderBytes + 10)) == Fate{kHeaderChanged, 0});
}

TEST_CASE("security: without a secret, frames have only checksums") {
  AsioOptions options = server();
  options.secret.clear();
  Node node(options);
  BareSocket peer(node.address());
  peer.shake_hands({}, identity(Role::kWorker, 0));
  peer.send(frame_of(header_of(FrameKind::kContribution), pattern(10, 1)));
  CHECK(node.wait_frames(1));
}

TEST_CASE("security: connections that are being refused count toward the limit") {
  AsioOptions options = server();
  options.limits.unauthenticated = 16;
  options.limits.linger = 60s;
  Node node(options);
  std::deque<BareSocket> held;
  for (int i = 0; i < 100; ++i) {
    held.emplace_back(node.address(), "127.0.0.2");
    held.back().send(Bytes(64));
  }
  // send() fails on a connection that is cut off. It succeeds on one that stays open so that the
  // peer can read its refusal.
  const auto open = [&] {
    return std::ranges::count_if(held, [](const BareSocket& each) { return each.send(Bytes(1)); });
  };
  for (int i = 0; i < 100 && open() > 16; ++i) std::this_thread::sleep_for(50ms);
  CHECK(open() <= 16);
}

TEST_CASE("security: a flood of unauthenticated connections does not block members") {
  AsioOptions options = server();
  options.limits.unauthenticated = 16;
  Node node(options);
  std::atomic<bool> over = false;
  std::jthread flood([&] {
    std::deque<BareSocket> held;
    while (!over) {
      held.emplace_back(node.address(), "127.0.0.2");
      if (held.size() > 200) held.pop_front();
      std::this_thread::sleep_for(1ms);
    }
  });
  for (int32_t rank = 0; rank < 8; ++rank) {
    Node worker(options_of(identity(Role::kWorker, rank), false));
    worker.connect(node.address(), kServer1);
    CHECK(worker.wait_open());
  }
  over = true;
}
