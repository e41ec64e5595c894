// Gradient chunks to a shard and their sums back, over loopback, between two processes:
//
//     bench_transport serve                      prints its address; ends with its connection
//     bench_transport work ADDRESS SECONDS       the worker
//
// Both print "bytes=... seconds=... cpu=...": bytes of bodies sent plus received, processor seconds
// of the process. bench/transport.py runs them beside iperf3.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "comm/asio/driver.h"
#include "core/error.h"

namespace {

using namespace poseidon;
using namespace poseidon::comm;

constexpr uint64_t kChunkBytes = 2 << 20;
constexpr uint64_t kSlices = kChunkBytes / kSliceBytes;
constexpr uint32_t kChunks = 4;  // on their way at a time

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The memory of all chunks on their way.
class Chunks {
 public:
  explicit Chunks(float value) : numbers_(kChunks * kChunkBytes / sizeof(float), value) {}
  std::span<float> slice(const FrameHeader& header) {
    check(header.chunk < kChunks && header.offset + header.length <= kChunkBytes,
          "a slice lies within a chunk");
    return std::span(numbers_).subspan((header.chunk * kChunkBytes + header.offset) / sizeof(float),
                                       header.length / sizeof(float));
  }

 private:
  std::vector<float> numbers_;
};

/// What both ends share: counting, and being done.
class End : public Machine {
 public:
  AsioTransport* transport = nullptr;
  std::promise<void> done;

  void report() const {
    std::printf("bytes=%llu seconds=%.4f cpu=%.4f\n", static_cast<unsigned long long>(bytes_),
                std::chrono::duration<double>(ended_ - began_).count(), cpu_ended_ - cpu_began_);
  }

 protected:
  using Clock = std::chrono::steady_clock;

  void begin() {
    began_ = Clock::now();
    cpu_began_ = processor_seconds();
  }
  void end() {
    ended_ = Clock::now();
    cpu_ended_ = processor_seconds();
    done.set_value();
  }
  void send(ConnectionId to, FrameHeader header, FrameKind kind, std::span<const float> numbers) {
    header.kind = kind;
    header.length = numbers.size_bytes();
    // The memory is written again only after the other end has answered to it: no owner is needed.
    transport->send(to, header, {.bytes = std::as_bytes(numbers), .owner = {}},
                    bulk_priority(header.chunk));
    bytes_ += header.length;
  }
  void heard(ConnectionId) override {}
  void wake() override {}

  uint64_t bytes_ = 0;
  Clock::time_point began_, ended_;

 private:
  double cpu_began_ = 0, cpu_ended_ = 0;
};

/// Adds its own part to each slice that comes, and sends the sum back.
class Shard final : public End {
 private:
  void opened(ConnectionId, const PeerIdentity&) override { begin(); }
  std::span<std::byte> place(ConnectionId, const FrameHeader& header) override {
    return std::as_writable_bytes(sums_.slice(header));
  }
  void received(ConnectionId from, const FrameHeader& header, std::span<const std::byte>) override {
    bytes_ += header.length;
    const std::span<float> sum = sums_.slice(header), own = own_.slice(header);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    send(from, header, FrameKind::kSum, sum);
  }
  void closed(ConnectionId, const std::string&) override { end(); }

  Chunks sums_{0}, own_{2};
};

/// Sends a chunk again as soon as its sum is there, for a time.
class Worker final : public End {
 public:
  explicit Worker(double seconds) : seconds_(seconds) {}

 private:
  void opened(ConnectionId peer, const PeerIdentity&) override {
    begin();
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) send_chunk(peer, chunk);
  }
  std::span<std::byte> place(ConnectionId, const FrameHeader& header) override {
    return std::as_writable_bytes(sums_.slice(header));
  }
  void received(ConnectionId from, const FrameHeader& header, std::span<const std::byte>) override {
    bytes_ += header.length;
    check(sums_.slice(header)[0] == 3, "the sum of 1 and 2 is 3");
    if (++slices_[header.chunk] < kSlices) return;
    slices_[header.chunk] = 0;
    if (Clock::now() - began_ < std::chrono::duration<double>(seconds_))
      send_chunk(from, header.chunk);
    else if (++ended_chunks_ == kChunks)
      end();
  }
  void closed(ConnectionId, const std::string& why) override {
    std::cerr << "bench_transport: " << why << '\n';
    end();
  }

  void send_chunk(ConnectionId to, uint32_t chunk) {
    for (uint64_t slice = 0; slice < kSlices; ++slice) {
      FrameHeader header;
      header.chunk = chunk;
      header.offset = slice * kSliceBytes;
      header.length = kSliceBytes;
      send(to, header, FrameKind::kContribution, gradient_.slice(header));
    }
  }

  const double seconds_;
  Chunks gradient_{1}, sums_{0};
  std::array<uint64_t, kChunks> slices_{};
  uint32_t ended_chunks_ = 0;
};

void serve() {
  Shard shard;
  AsioOptions options;
  options.listen = "127.0.0.1:0";
  AsioTransport transport(options);
  shard.transport = &transport;
  std::cout << transport.address() << std::endl;
  transport.start(shard);
  shard.done.get_future().wait();
  transport.stop();
  shard.report();
}

void work(const std::string& address, double seconds) {
  Worker worker(seconds);
  AsioTransport transport{AsioOptions()};
  worker.transport = &transport;
  transport.start(worker);
  transport.post([&] { transport.connect(address, {}); });
  worker.done.get_future().wait();
  transport.stop();
  worker.report();
}

}  // namespace

int main(int count, char** words) try {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 1 && arguments[0] == "serve") {
    serve();
  } else if (arguments.size() == 3 && arguments[0] == "work") {
    work(arguments[1], std::stod(arguments[2]));
  } else {
    std::cerr << "usage: bench_transport serve | work ADDRESS SECONDS\n";
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "bench_transport: " << error.what() << '\n';
  return 1;
}
