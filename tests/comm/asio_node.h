#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/asio/driver.h"
#include "comm/wire/address.h"

/// Test fixtures for comm/asio: a transport whose machine records its callbacks, and a raw socket
/// that can send any bytes.
namespace poseidon::comm {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(size_t count, int seed) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::byte>(static_cast<size_t>(seed) * 31 + i * 7 + i / 256);
  return out;
}

inline FrameHeader header_of(FrameKind kind, uint32_t chunk = 0, uint64_t length = 0) {
  FrameHeader header;
  header.kind = kind;
  header.chunk = chunk;
  header.length = length;
  return header;
}

/// A whole frame as bytes: header and body.
inline Bytes frame_of(FrameHeader header, const Bytes& body, FrameSeal& seal) {
  header.length = body.size();
  seal.add(body);
  header.body_seal = seal.of_body();
  const auto head = encode(header, seal);
  Bytes out(head.size() + body.size());
  std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), out.begin()));
  return out;
}

/// A frame with the seal that is used before a connection is authenticated.
inline Bytes frame_of(const FrameHeader& header, const Bytes& body) {
  ChecksumSeal seal;
  return frame_of(header, body, seal);
}

/// One node of a cluster, in this process. It records callbacks. It drops bodies of chunk 99,
/// throws at chunk 66, and closes the connection at chunk 55.
class Node final : private Machine {
 public:
  struct Frame {
    FrameHeader header;
    Bytes body;
    std::chrono::steady_clock::time_point at;
  };
  struct Events {
    std::vector<std::pair<ConnectionId, PeerIdentity>> opened;
    std::vector<Frame> frames;
    std::vector<std::string> closed;
    std::vector<uint64_t> placed;  ///< body lengths
    int begun = 0, early = 0;      ///< calls of begin(), and of opened() before it
    int heard = 0, wakes = 0;
  };

  explicit Node(AsioOptions options) : self_(options.self), transport_(std::move(options)) {
    transport_.start(*this);
  }
  ~Node() { transport_.stop(); }

  AsioTransport& transport() { return transport_; }
  std::string address() const { return transport_.address(); }

  /// Runs the function in the I/O thread and waits until it returns.
  void run(const std::function<void()>& function) {
    std::promise<void> done;
    transport_.post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  ConnectionId connect(const std::string& address, NodeId called = {Role::kServer, 1}) {
    ConnectionId id = 0;
    run([&] { id = transport_.connect(address, self_, called); });
    return id;
  }
  /// Sends a frame whose payload owns its body.
  void send(ConnectionId to, FrameHeader header, Bytes body, Priority priority) {
    const auto owned = std::make_shared<const Bytes>(std::move(body));
    header.length = owned->size();
    run([&] { transport_.send(to, header, {.bytes = *owned, .owner = owned}, priority); });
  }

  /// Waits until `condition` holds for the recorded events. Returns false after 20 s.
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(events_); });
  }
  bool wait_open(size_t count = 1) {
    return wait([=](const Events& events) { return events.opened.size() >= count; });
  }
  bool wait_frames(size_t count) {
    return wait([=](const Events& events) { return events.frames.size() >= count; });
  }
  /// The reason why the first connection was closed.
  std::string why_closed() {
    if (!wait([](const Events& events) { return !events.closed.empty(); })) return "nothing";
    return events().closed[0];
  }
  Events events() {
    std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  template <class Change>
  void note(Change change) {
    std::lock_guard lock(mutex_);
    change(events_);
    changed_.notify_all();
  }

  void begin() override {
    note([](Events& events) { ++events.begun; });
  }
  void opened(ConnectionId connection, const PeerIdentity& peer) override {
    note([&](Events& events) {
      events.opened.emplace_back(connection, peer);
      if (events.begun == 0) ++events.early;
    });
  }
  std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) override {
    note([&](Events& events) { events.placed.push_back(header.length); });
    if (header.chunk == 99) return {};
    places_[from].resize(header.length);
    return places_[from];
  }
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override {
    if (header.chunk == 66) throw std::runtime_error("chunk 66");
    if (header.chunk == 55) transport_.close(from);
    note([&](Events& events) {
      events.frames.push_back(
          {header, {body.begin(), body.end()}, std::chrono::steady_clock::now()});
    });
  }
  void heard(ConnectionId) override {
    note([](Events& events) { ++events.heard; });
  }
  void closed(ConnectionId, const std::string& why) override {
    note([&](Events& events) { events.closed.push_back(why); });
  }
  void wake() override {
    note([](Events& events) { ++events.wakes; });
  }

  PeerIdentity self_;
  std::map<ConnectionId, Bytes> places_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Events events_;
  AsioTransport transport_;
};

/// Two nodes: a worker that is connected to a server.
struct Pair {
  Pair(const AsioOptions& servers, const AsioOptions& workers)
      : server(servers), worker(workers), at_worker(worker.connect(server.address())) {
    REQUIRE(worker.wait_open());
    REQUIRE(server.wait_open());
    at_server = server.events().opened[0].first;
  }
  Node server, worker;
  ConnectionId at_worker, at_server = 0;
};

/// Sends eight slices in one direction and eight control frames in the other, and checks them.
inline void check_frames_both_ways(Node& server, ConnectionId at_server, Node& worker,
                                   ConnectionId at_worker) {
  constexpr uint32_t kFrames = 8;
  const auto slice = [](uint32_t i) { return pattern(kSliceBytes, static_cast<int>(i)); };
  const auto words = [](uint32_t i) { return pattern(100 + i, static_cast<int>(i)); };
  for (uint32_t i = 0; i < kFrames; ++i) {
    worker.send(at_worker, header_of(FrameKind::kContribution, i), slice(i), bulk_priority(3));
    server.send(at_server, header_of(FrameKind::kControl, i), words(i), kUrgent);
  }
  REQUIRE(server.wait_frames(kFrames));
  REQUIRE(worker.wait_frames(kFrames));
  const auto came = server.events(), went = worker.events();
  for (uint32_t i = 0; i < kFrames; ++i) {
    CHECK(came.frames[i].header.chunk == i);
    CHECK(came.frames[i].header.length == kSliceBytes);
    CHECK(came.frames[i].body == slice(i));
    CHECK(went.frames[i].header.chunk == i);
    CHECK(went.frames[i].body == words(i));
  }
}

/// A raw TCP socket that can violate the protocol.
class BareSocket {
 public:
  /// Connects to `address` ("127.0.0.1:port") from the loopback address `from`.
  explicit BareSocket(const std::string& address, const char* from = "127.0.0.1")
      : BareSocket(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in here = loopback(0);
    REQUIRE(inet_pton(AF_INET, from, &here.sin_addr) == 1);
    REQUIRE(bind(number_, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
    const sockaddr_in to = loopback(parse_address(address).port);
    REQUIRE(connect(number_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  ~BareSocket() { close(); }
  BareSocket(BareSocket&& other) noexcept
      : number_(std::exchange(other.number_, -1)),
        sent_(std::move(other.sent_)),
        received_(std::move(other.received_)) {}
  BareSocket& operator=(BareSocket&&) = delete;

  /// A socket that listens at an unused port.
  static BareSocket listening() {
    BareSocket out(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in at = loopback(0);
    REQUIRE(bind(out.number_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(listen(out.number_, 8) == 0);
    return out;
  }
  std::string address() const {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    REQUIRE(getsockname(number_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  BareSocket accept() const { return BareSocket(::accept(number_, nullptr, nullptr)); }

  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  /// Returns false if the connection has ended.
  bool send(std::span<const std::byte> bytes) const {
    return ::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
  }
  /// Reads `count` bytes, or fewer if the stream ends.
  Bytes receive(size_t count) const {
    Bytes out(count);
    size_t have = 0;
    while (have < count) {
      const ssize_t got = recv(number_, out.data() + have, count - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    out.resize(have);
    return out;
  }
  /// Reads a whole frame. Returns nullopt if the stream ends before its header.
  std::optional<std::pair<FrameHeader, Bytes>> receive_frame() {
    const Bytes head = receive(kHeaderBytes);
    if (head.size() < kHeaderBytes) return std::nullopt;
    const DecodedHeader decoded = decode(head, *received_);
    REQUIRE(decoded.error == "");
    Bytes body = receive(decoded.header.length);
    received_->add(body);
    CHECK((received_->of_body() == decoded.header.body_seal) ==
          (body.size() == decoded.header.length));
    return std::pair{decoded.header, std::move(body)};
  }
  /// A frame with the seal that is used after shake_hands().
  Bytes sealed(const FrameHeader& header, const Bytes& body) {
    return frame_of(header, body, *sent_);
  }
  /// A header without a body.
  auto sealed_header(const FrameHeader& header) { return encode(header, *sent_); }
  /// Proves as `self` that it has the secret.
  void shake_hands(
      const Secret& secret,
      const PeerIdentity& self = {.role = Role::kWorker, .rank = 7, .view = 4, .address = ""},
      NodeId called = {Role::kServer, 1}) {
    const Initiator initiator(secret, self, called, make_nonce());
    const auto hello = initiator.hello();
    send(frame_of(header_of(FrameKind::kHello), {hello.begin(), hello.end()}));
    const auto challenge = receive_frame();
    REQUIRE(challenge);
    const HandshakeStep step = initiator.challenge(challenge->second);
    REQUIRE(step.error == "");
    send(frame_of(header_of(FrameKind::kProof), step.reply));
    if (!step.keys) return;
    sent_ = std::make_unique<KeyedSeal>(step.keys->sent);
    received_ = std::make_unique<KeyedSeal>(step.keys->received);
  }

 private:
  explicit BareSocket(int number) : number_(number) {
    REQUIRE(number_ >= 0);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return out;
  }

  int number_;
  std::unique_ptr<FrameSeal> sent_ = std::make_unique<ChecksumSeal>();
  std::unique_ptr<FrameSeal> received_ = std::make_unique<ChecksumSeal>();
};

}  // namespace poseidon::comm
