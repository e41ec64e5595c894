// Sends gradients from two workers to a server over TCP, and receives their sums. Transport and
// exchange are the code of training runs.
//
//     bench_transport serve ADDRESS [SECRET]         prints its address
//     bench_transport work ADDRESS SECONDS [SECRET]  two workers in one process
//
// `serve` ends when its connections close. With a secret, frames have authentication codes; without
// a secret, checksums. Both commands print "bytes=... seconds=... cpu=...". The values are the
// bytes of frame bodies sent plus received, elapsed seconds, and processor seconds of the process.
// They do not include the first second, in which the connections reach their speed.
// bench/transport.py compares them with iperf3.

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "comm/asio/driver.h"
#include "comm/exchange/server_shard.h"
#include "comm/exchange/worker_exchange.h"
#include "core/error.h"

namespace {

using namespace poseidon;
using namespace poseidon::comm;

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kLayers = 8;  // each has one chunk
constexpr int64_t kChunkBytes = 2 << 20;
constexpr uint64_t kMostAhead = 3;  // steps that a layer may be ahead of the slowest layer
constexpr double kWarmUpSeconds = 1;
constexpr size_t kElements = kChunkBytes / sizeof(float);
constexpr size_t kSliceElements = kSliceBytes / sizeof(float);

Plan plan_of_chunks() {
  PlanRequest request;
  request.workers = kWorkers;
  request.servers_apart = true;
  for (uint32_t i = 0; i < kLayers; ++i) {
    LayerTraffic layer;
    layer.name = text("layer", i);
    layer.type = "convolution";
    layer.tensors.push_back({.name = layer.name + ".weight", .elements = kElements});
    request.layers.push_back(std::move(layer));
  }
  Plan plan = make_plan(request);
  check(plan.chunks.size() == kLayers, "each layer has exactly one chunk");
  return plan;
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Base class of the server and of the workers: the transport, the measurement, and the end of the
/// run.
class End : public Machine {
 public:
  void run(AsioTransport& transport) {
    transport_ = &transport;
    transport.start(*this);
  }
  /// Waits for the end of the run and prints the line of results.
  void finish() {
    done_.get_future().wait();
    transport_->stop();
    std::printf("bytes=%llu seconds=%.4f cpu=%.4f\n", static_cast<unsigned long long>(bytes_),
                std::chrono::duration<double>(ended_ - began_).count(), cpu_ended_ - cpu_began_);
  }

 protected:
  using Clock = std::chrono::steady_clock;

  void begin_measuring() {
    began_ = Clock::now();
    cpu_began_ = processor_seconds();
  }
  void end() {
    if (bytes_ > 0) return;
    bytes_ = 2 * received_;  // each slice of a gradient is sent and returns as a sum
    ended_ = Clock::now();
    cpu_ended_ = processor_seconds();
    done_.set_value();
  }
  /// Counts received bytes. Discards the bytes of the warm-up, in which the connections reach their
  /// speed.
  void count(uint64_t bytes) {
    received_ += bytes;
    if (warm_ || elapsed() < kWarmUpSeconds) return;
    warm_ = true;
    received_ = 0;
    begin_measuring();
  }
  bool has_run(double seconds) const { return warm_ && elapsed() > seconds; }

  void heard(ConnectionId) override {}
  void wake() override {}

  static std::span<std::byte> memory_of(const Destination& destination) {
    check(destination.accepted, "the receiver accepts each frame of the plan");
    return destination.memory;
  }

  const Plan plan_ = plan_of_chunks();
  AsioTransport* transport_ = nullptr;

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  bool warm_ = false;
  uint64_t received_ = 0;
  uint64_t bytes_ = 0;
  Clock::time_point began_, ended_;
  double cpu_began_ = 0, cpu_ended_ = 0;
  std::promise<void> done_;
};

/// Sums the gradients of all workers, and sends the sums to them.
class Server final : public End, private Outlet {
 private:
  /// Sends all sums with the same priority, in the order in which they are ready. If the first
  /// layers had priority, the other layers would fall behind until the first layers must wait
  /// (kMostAhead).
  void send(NodeId to, const FrameHeader& header, Payload payload, Priority) override {
    transport_->send(connections_[to.rank], header, std::move(payload), bulk_priority(0));
  }
  uint32_t rank_of(ConnectionId connection) const {
    const auto found = std::find(connections_.begin(), connections_.end(), connection);
    return static_cast<uint32_t>(found - connections_.begin());
  }

  void opened(ConnectionId connection, const PeerIdentity& peer) override {
    connections_.at(static_cast<size_t>(peer.rank)) = connection;
    if (++open_ == kWorkers) begin_measuring();
  }
  std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) override {
    return memory_of(shard_.destination(rank_of(from), header));
  }
  void received(ConnectionId from, const FrameHeader& header, std::span<const std::byte>) override {
    shard_.received(rank_of(from), header);
    count(header.length);
  }
  void closed(ConnectionId, const std::string&) override {
    if (--open_ == 0) end();
  }

  std::array<ConnectionId, kWorkers> connections_{};
  uint32_t open_ = 0;
  ServerShard shard_{plan_, 0, {}, *this};
};

/// One worker's gradients. The first element of each slice is 1, all other elements are 0.
/// check_summed() compares the first elements with the expected sum. Sums are received into the
/// same memory, as in training.
class Gradients final : public ExchangeMemory {
 public:
  Gradients() : layers_(kLayers, std::vector<float>(kElements)) {}

  std::span<float> sum(uint32_t layer, uint32_t, uint64_t) override { return layers_[layer]; }
  std::span<float> factors(uint32_t, uint32_t, uint64_t) override { return {}; }

  void mark(uint32_t layer) {
    for (size_t i = 0; i < kElements; i += kSliceElements) layers_[layer][i] = 1;
  }
  void check_summed(uint32_t layer) const {
    for (size_t i = 0; i < kElements; i += kSliceElements)
      check(layers_[layer][i] == kWorkers, "each sum contains the gradients of all workers");
  }

 private:
  std::vector<std::vector<float>> layers_;
};

/// One worker that computes nothing. The next gradient of a layer is ready when the layer's
/// previous sum has arrived. A layer waits if it is more than kMostAhead steps ahead of the slowest
/// layer.
class Worker final : private Outlet {
 public:
  Worker(const Plan& plan, uint32_t rank)
      : exchange_(plan, rank, {}, gradients_, *this,
                  [this](uint64_t, uint32_t layer) { gradients_.check_summed(layer); }) {}

  void open(Transport& transport, ConnectionId connection) {
    transport_ = &transport;
    connection_ = connection;
  }
  ConnectionId connection() const { return connection_; }
  WorkerExchange& exchange() { return exchange_; }

  void contribute() {
    uint64_t slowest = exchange_.step_of(0);
    for (uint32_t layer = 1; layer < kLayers; ++layer)
      slowest = std::min(slowest, exchange_.step_of(layer));
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const uint64_t step = exchange_.step_of(layer);
      if (step < begun_[layer] || step > slowest + kMostAhead) continue;
      begun_[layer] = step + 1;
      gradients_.mark(layer);
      exchange_.contribute(
          layer,
          {.step = step, .part = exchange_.parts()[0], .values = gradients_.sum(layer, 0, step)});
    }
  }

 private:
  void send(NodeId, const FrameHeader& header, Payload payload, Priority priority) override {
    transport_->send(connection_, header, std::move(payload), priority);
  }

  Gradients gradients_;
  WorkerExchange exchange_;
  Transport* transport_ = nullptr;
  ConnectionId connection_ = 0;
  std::array<uint64_t, kLayers> begun_{};
};

/// The process that contains all workers.
class Workers final : public End {
 public:
  explicit Workers(double seconds) : seconds_(seconds) {}

  void dial(const std::string& address) {
    for (uint32_t rank = 0; rank < kWorkers; ++rank)
      workers_[rank].open(
          *transport_,
          transport_->connect(
              address,
              {.role = Role::kWorker, .rank = static_cast<int>(rank), .view = 0, .address = ""},
              NodeId{Role::kServer, 0}));
  }

 private:
  static constexpr NodeId kServer{Role::kServer, 0};

  Worker& worker_of(ConnectionId connection) {
    return workers_[workers_[0].connection() == connection ? 0 : 1];
  }

  void opened(ConnectionId, const PeerIdentity&) override {
    if (++open_ < kWorkers) return;
    begin_measuring();
    for (Worker& worker : workers_) worker.contribute();
  }
  std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) override {
    return memory_of(worker_of(from).exchange().destination(kServer, header));
  }
  void received(ConnectionId from, const FrameHeader& header, std::span<const std::byte>) override {
    Worker& worker = worker_of(from);
    worker.exchange().received(kServer, header);
    count(header.length);
    worker.contribute();
    if (has_run(seconds_)) end();
  }
  void closed(ConnectionId, const std::string& why) override {
    std::cerr << "bench_transport: " << why << '\n';
    std::exit(1);
  }

  const double seconds_;
  std::array<Worker, kWorkers> workers_{Worker{plan_, 0}, Worker{plan_, 1}};
  uint32_t open_ = 0;
};

void serve(const std::string& address, const Secret& secret) {
  Server server;
  AsioOptions options;
  options.listen = address;
  options.self = {.role = Role::kServer, .rank = 0, .view = 0, .address = ""};
  options.secret = secret;
  options.insecure = true;
  AsioTransport transport(options);
  std::cout << transport.address() << std::endl;
  server.run(transport);
  server.finish();
}

void work(const std::string& address, double seconds, const Secret& secret) {
  Workers workers(seconds);
  AsioOptions options;
  options.secret = secret;
  AsioTransport transport(options);
  workers.run(transport);
  transport.post([&] { workers.dial(address); });
  workers.finish();
}

}  // namespace

int main(int count, char** words) try {
  const std::vector<std::string> arguments(words + 1, words + count);
  const auto secret_at = [&](size_t place) {
    const std::string word = arguments.size() > place ? arguments[place] : "";
    const auto bytes = std::as_bytes(std::span(word));
    return Secret(bytes.begin(), bytes.end());
  };
  if (arguments.size() >= 2 && arguments[0] == "serve") {
    serve(arguments[1], secret_at(2));
  } else if (arguments.size() >= 3 && arguments[0] == "work") {
    work(arguments[1], std::stod(arguments[2]), secret_at(3));
  } else {
    std::cerr << "usage: bench_transport serve ADDRESS [SECRET] | work ADDRESS SECONDS [SECRET]\n";
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "bench_transport: " << error.what() << '\n';
  return 1;
}
