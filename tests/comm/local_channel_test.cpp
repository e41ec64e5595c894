#include <doctest/doctest.h>

#include <thread>

#include "comm/asio/in_process_hub.h"
#include "tests/comm/asio_node.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

AsioOptions server_options(const std::shared_ptr<InProcessHub>& in_process_hub) {
  AsioOptions options;
  options.listen = "127.0.0.1:0";
  options.in_process_hub = in_process_hub;
  options.self = {.role = Role::kServer, .rank = 1, .view = 4, .address = ""};
  return options;
}

AsioOptions worker_options(const std::shared_ptr<InProcessHub>& in_process_hub) {
  AsioOptions options;
  options.in_process_hub = in_process_hub;
  options.self = {.role = Role::kWorker, .rank = 2, .view = 4, .address = "worker:1"};
  return options;
}

/// A worker and a server of the same process, connected through memory.
struct InProcessPair : Pair {
  using Pair::Pair;
  explicit InProcessPair(
      const std::shared_ptr<InProcessHub>& in_process_hub = std::make_shared<InProcessHub>())
      : Pair(server_options(in_process_hub), worker_options(in_process_hub)) {}
};

/// Blocks a node's I/O thread until release().
class Held {
 public:
  explicit Held(Node& node) {
    std::promise<void> begun;
    node.transport().post([&begun, until = release_.get_future().share()] {
      begun.set_value();
      until.wait();
    });
    begun.get_future().wait();
  }
  void release() { release_.set_value(); }

 private:
  std::promise<void> release_;
};

/// Sends a payload that does not own its memory.
void lend(Node& node, ConnectionId to, FrameKind kind, const Bytes& bytes, Priority priority) {
  node.run([&] {
    node.transport().send(to, header_of(kind), {.bytes = bytes, .owner = nullptr}, priority);
  });
}

}  // namespace

TEST_CASE("in-process peers receive each other's identity without a socket") {
  InProcessPair pair;
  const PeerIdentity server = pair.worker.events().opened[0].second;
  CHECK(server.role == Role::kServer);
  CHECK(server.rank == 1);
  CHECK(server.view == 4);
  CHECK(server.address == pair.server.address());
  CHECK(pair.worker.events().opened[0].first == pair.at_worker);
  const PeerIdentity worker = pair.server.events().opened[0].second;
  CHECK(worker.role == Role::kWorker);
  CHECK(worker.rank == 2);
  CHECK(worker.address == "worker:1");  // a socket would report its real address
}

TEST_CASE("an in-process peer is found by its advertised address") {
  const auto in_process_hub = std::make_shared<InProcessHub>();
  AsioOptions options = server_options(in_process_hub);
  std::string wanted;
  SUBCASE("with its port") { wanted = "some.name:7002"; }
  SUBCASE("without a port: the port at which it listens") { wanted = "some.name:0"; }
  options.advertise = wanted;
  Node server(options), worker(worker_options(in_process_hub));
  const std::string advertised = server.transport().advertised();
  if (wanted == "some.name:0")
    CHECK(advertised == "some.name" + server.address().substr(server.address().rfind(':')));
  else
    CHECK(advertised == wanted);
  worker.connect(advertised);
  CHECK(worker.wait_open());
}

TEST_CASE("in-process frames arrive complete and in order, in both directions") {
  InProcessPair pair;
  check_frames_both_ways(pair.server, pair.at_server, pair.worker, pair.at_worker);
}

TEST_CASE("an in-process body without a destination is dropped, and the next frame arrives") {
  InProcessPair pair;
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 99), pattern(100000, 1), 1);
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 3), pattern(50, 2), 1);
  REQUIRE(pair.server.wait_frames(1));
  CHECK(pair.server.events().frames[0].header.chunk == 3);
}

TEST_CASE("in-process frames are delivered by priority, a few in each task") {
  InProcessPair pair;
  Held held(pair.server);
  constexpr uint32_t kSlices = 20;
  for (uint32_t i = 0; i < kSlices; ++i)
    pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, i),
                     pattern(kSliceBytes, 1), bulk_priority(9));
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 200), pattern(10, 1),
                   bulk_priority(1));
  pair.worker.send(pair.at_worker, header_of(FrameKind::kHeartbeat, 100), {}, kUrgent);
  size_t before = 0;  // a second task of the I/O thread, like that of a socket
  pair.server.transport().post([&] { before = pair.server.events().frames.size(); });
  held.release();
  REQUIRE(pair.server.wait_frames(kSlices + 2));
  CHECK(before <= 4);
  const auto frames = pair.server.events().frames;
  CHECK(frames[0].header.chunk == 100);
  CHECK(frames[1].header.chunk == 200);
  for (uint32_t i = 0; i < kSlices; ++i) CHECK(frames[i + 2].header.chunk == i);
}

TEST_CASE("drop_bulk() drops bulk frames that an in-process peer has not yet received") {
  InProcessPair pair;
  Held held(pair.server);
  Bytes numbers = pattern(kSliceBytes, 1);
  for (int i = 0; i < 9; ++i)
    lend(pair.worker, pair.at_worker, FrameKind::kContribution, numbers, 1);
  pair.worker.run([&] { pair.worker.transport().drop_bulk(pair.at_worker); });
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 3), pattern(10, 1), 1);
  held.release();
  REQUIRE(pair.server.wait_frames(1));
  CHECK(pair.server.events().frames[0].header.chunk == 3);
}

TEST_CASE("the bandwidth limit does not apply to in-process peers") {
  const auto in_process_hub = std::make_shared<InProcessHub>();
  AsioOptions options = worker_options(in_process_hub);
  options.bandwidth_limit_mbps = 0.1;
  InProcessPair pair(server_options(in_process_hub), options);
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < 16; ++i)
    pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, i),
                     pattern(kSliceBytes, 1), 1);
  REQUIRE(pair.server.wait_frames(16));
  CHECK(std::chrono::steady_clock::now() - begin < 10s);  // 4 MiB would take six minutes
}

TEST_CASE("after close() the sender's memory is not read, and urgent frames still arrive") {
  InProcessPair pair;
  Bytes numbers = pattern(kSliceBytes, 1), words = pattern(10, 2);
  Held held(pair.server);
  lend(pair.worker, pair.at_worker, FrameKind::kContribution, numbers, 1);
  lend(pair.worker, pair.at_worker, FrameKind::kControl, words, kUrgent);
  pair.worker.run([&] { pair.worker.transport().close(pair.at_worker); });
  numbers = Bytes();
  words.assign(10, std::byte{0});
  held.release();
  CHECK(pair.server.why_closed() == "connection closed by the peer");
  const auto events = pair.server.events();
  REQUIRE(events.frames.size() == 1);
  CHECK(events.frames[0].header.kind == FrameKind::kControl);
  CHECK(events.frames[0].body == pattern(10, 2));
  CHECK(pair.worker.events().closed.empty());
}

TEST_CASE("a machine may close an in-process connection in its callback for a frame") {
  InProcessPair pair;
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 55), pattern(10, 1), 1);
  pair.worker.send(pair.at_worker, header_of(FrameKind::kContribution, 1), pattern(10, 1), 1);
  CHECK(pair.worker.why_closed() == "connection closed by the peer");
  REQUIRE(pair.server.wait_frames(1));
  CHECK(pair.server.events().frames.size() == 1);
}

TEST_CASE("an in-process peer that stops is reported as closed") {
  InProcessPair pair;
  SUBCASE("the peer that accepted stops") {
    pair.server.transport().stop();
    CHECK(pair.worker.why_closed() == "connection closed by the peer");
  }
  SUBCASE("the peer that connected stops") {
    pair.worker.transport().stop();
    CHECK(pair.server.why_closed() == "connection closed by the peer");
  }
}

TEST_CASE("an in-process peer whose machine throws is reported as closed") {
  const auto in_process_hub = std::make_shared<InProcessHub>();
  AsioOptions options = server_options(in_process_hub);
  std::promise<void> failed;
  options.on_failure = [&](std::exception_ptr) { failed.set_value(); };
  Node server(options);
  Node worker(worker_options(in_process_hub));
  const ConnectionId id = worker.connect(server.address());
  REQUIRE(worker.wait_open());
  worker.send(id, header_of(FrameKind::kContribution, 66), pattern(10, 1), 1);
  failed.get_future().wait();
  CHECK(worker.why_closed() == "connection closed by the peer");
  worker.connect(server.address());  // the in-process server is gone, and no socket listens there
  CHECK(worker.wait([](const Node::Events& events) { return events.closed.size() == 2; }));
}

TEST_CASE("a node connects by socket to an address that no in-process peer has") {
  const auto in_process_hub = std::make_shared<InProcessHub>();
  Node stranger(server_options(nullptr)), worker(worker_options(in_process_hub));
  worker.connect(stranger.address());
  REQUIRE(stranger.wait_open());
  CHECK(stranger.events().opened[0].second.address.starts_with("127.0.0.1:"));
}

TEST_CASE("every in-process connection attempt gets an answer, whenever the peer stops") {
  for (int round = 0; round < 50; ++round) {
    const auto in_process_hub = std::make_shared<InProcessHub>();
    Node server(server_options(in_process_hub)), worker(worker_options(in_process_hub));
    const std::string address = server.address();
    std::thread stopping([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
      server.transport().stop();
    });
    for (int i = 0; i < 20; ++i) worker.connect(address);
    stopping.join();
    CHECK(worker.wait([](const Node::Events& events) { return events.closed.size() == 20; }));
  }
}

TEST_CASE("a caller that closes before the answer is reported as closed") {
  const auto in_process_hub = std::make_shared<InProcessHub>();
  Node server(server_options(in_process_hub)), worker(worker_options(in_process_hub));
  Held held(server);
  const ConnectionId id = worker.connect(server.address());
  worker.run([&] { worker.transport().close(id); });
  held.release();
  CHECK(server.why_closed() == "connection closed by the peer");
  CHECK(worker.events().opened.empty());
}
