// Runs on an emulated CUDA runtime. Needs no GPU.
#include "core/cuda/runtime/runtime_driver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "core/cuda/runtime/gpus.h"
#include "core/error.h"
#include "core/trace.h"
#include "tests/support/cuda_runtime/emulated_cuda_runtime.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::cuda;
using poseidon::test::emulated_cuda_runtime;
using poseidon::test::EmulatedCudaRuntime;

namespace {

/// Host work in place of a kernel.
class Work final : public Operation {
 public:
  Work(std::string name, std::function<void()> work)
      : name_(std::move(name)), work_(std::move(work)) {}
  std::string name() const override { return name_; }
  void visit(MemoryVisitor&) const override {}
  void issue(const Executor& executor) const override {
    EmulatedCudaRuntime::launch(static_cast<cudaStream_t>(executor.stream), work_);
  }

 private:
  std::string name_;
  std::function<void()> work_;
};

/// Allocates memory, as libraries do in their first call.
class TakesMemory final : public Operation {
 public:
  explicit TakesMemory(RuntimeDriver& driver) : driver_(driver) {}
  std::string name() const override { return "a first call"; }
  void visit(MemoryVisitor&) const override {}
  void issue(const Executor&) const override { driver_.allocate(8, MemoryKind::kDevice, "code"); }

 private:
  RuntimeDriver& driver_;
};

/// Gives other threads time while it is issued.
class SlowToIssue final : public Operation {
 public:
  std::string name() const override { return "slow to issue"; }
  void visit(MemoryVisitor&) const override {}
  void issue(const Executor&) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

std::unique_ptr<const Operation> work(
    std::string name, std::function<void()> body = [] {}) {
  return std::make_unique<Work>(std::move(name), std::move(body));
}

/// A machine with one GPU. The destructor checks that the test has freed everything.
struct Machine {
  Machine() { emulated_cuda_runtime().reset(); }
  ~Machine() {
    emulated_cuda_runtime().sticky = cudaSuccess;
    CHECK(emulated_cuda_runtime().allocations == 0);
    CHECK(emulated_cuda_runtime().events == 0);
    CHECK(emulated_cuda_runtime().streams == 0);
    CHECK(emulated_cuda_runtime().graphs == 0);
  }
};

std::string error_of_gpus() {
  return error_of<ConfigError>([] { list_gpus(); });
}

}  // namespace

TEST_CASE("GPUs: list_gpus() lists them, and one line states why none can be used") {
  const Machine machine;
  emulated_cuda_runtime().gpus = 2;
  const GpuList list = list_gpus();
  CHECK(list.driver == "13.0");
  REQUIRE(list.gpus.size() == 2);
  CHECK(list.gpus[1].name == "another GPU");
  CHECK(list.gpus[0].memory_bytes == size_t{1} << 30);
  CHECK(list.gpus[0].major == 9);
  CHECK(error_of<ConfigError>([] { RuntimeDriver{2}; }) ==
        "GPU 2: this machine has 2 GPUs, counted from 0");
  CHECK(error_of<ConfigError>([] { RuntimeDriver{-1}; }) ==
        "GPU -1: this machine has 2 GPUs, counted from 0");
  emulated_cuda_runtime().gpus = 0;
  CHECK(error_of_gpus() == "this machine has no visible NVIDIA GPU");
  emulated_cuda_runtime().driver_version = 12040;
  CHECK(error_of_gpus() == "this machine's NVIDIA driver is too old: expected one for CUDA " +
                               list.runtime + " or newer, got one for CUDA 12.4");
  emulated_cuda_runtime().driver_version = 0;
  CHECK(error_of_gpus() == "this machine has no NVIDIA driver");
  CHECK(error_of<ConfigError>([] { RuntimeDriver{0}; }) == "this machine has no NVIDIA driver");
}

TEST_CASE("GPUs: a message names the compute capability for which a build has no code") {
  const Machine machine;
  const auto error_for = [](int capability, std::vector<int> architectures) {
    emulated_cuda_runtime().capability = capability;
    return error_of<ConfigError>([&] { expect_code_for(0, architectures); });
  };
  CHECK(error_for(75, {80, 90, 100}) ==
        "GPU 0, made-up GPU, has compute capability 7.5, but this build has code for 8.0, 9.0, "
        "10.0 and later GPUs");
  for (const int capability : {80, 86, 89, 90, 100, 103, 120})
    CHECK(error_for(capability, {80, 90, 100}) == "");
  CHECK(error_for(89, {90}) != "");
  CHECK(error_for(80, {86, 90}) != "");
  CHECK(error_for(100, {90}) == "");
}

TEST_CASE("GPUs: an object of a library is destroyed when no other thread holds the GPU's lock") {
  const Machine machine;
  int object = 0;
  std::atomic<bool> destroyed = false;
  auto held = library_object(0, &object, [&](int*) { destroyed = true; });
  std::thread thread;
  {
    const GpuLock lock(0);
    thread = std::thread([&] { held.reset(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(destroyed);
  }
  thread.join();
  CHECK(destroyed);
}

TEST_CASE("RuntimeDriver: memory is zero; out of memory: the message names the free memory") {
  const Machine machine;
  RuntimeDriver driver(0);
  for (const MemoryKind place : {MemoryKind::kDevice, MemoryKind::kStaging}) {
    const Buffer buffer = driver.allocate(1000, place, "gradients");
    const auto bytes = buffer.as<uint8_t>();
    CHECK(std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; }));
  }
  CHECK(driver.allocate(0, MemoryKind::kDevice, "nothing").bytes() == 0);
  CHECK(error_of<OutOfMemory>(
            [&] { driver.allocate(size_t{6} << 30, MemoryKind::kDevice, "gradients"); }) ==
        "out of memory: GPU 0: cannot allocate 6.4 GB of device memory for gradients; 1.0 MB of "
        "the GPU's 1.1 GB are free");
  CHECK(
      error_of<OutOfMemory>(
          [&] { driver.allocate(size_t{6} << 30, MemoryKind::kStaging, "gradients"); })
          .starts_with(
              "out of memory: GPU 0: cannot allocate 6.4 GB of pinned host memory for gradients"));
}

TEST_CASE("RuntimeDriver: the available memory leaves a reserve of 1 GiB") {
  const Machine machine;
  const RuntimeDriver driver(0);
  CHECK(driver.available() == 0);
  emulated_cuda_runtime().free_bytes = size_t{5} << 30;
  CHECK(driver.available() == size_t{4} << 30);
}

TEST_CASE("RuntimeDriver: small staging buffers share an allocation") {
  const Machine machine;
  const int before = emulated_cuda_runtime().host_allocations;
  const auto count = [&] { return emulated_cuda_runtime().host_allocations - before; };
  constexpr size_t kBytes = 1000, kTotal = 2 * SlabMemory::kSlabBytes;
  {
    std::vector<Buffer> buffers;
    RuntimeDriver driver(0);
    for (size_t i = 0; i < kTotal / 1024; ++i) {
      buffers.push_back(driver.allocate(kBytes, MemoryKind::kStaging, "sums"));
      REQUIRE(reinterpret_cast<uintptr_t>(buffers.back().data()) % 64 == 0);
      const auto bytes = buffers.back().as<uint8_t>();
      REQUIRE(std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; }));
      std::ranges::fill(bytes, uint8_t{1});
    }
    CHECK(count() == 2);
    const Buffer large =
        driver.allocate(SlabMemory::kLargestPart + 1, MemoryKind::kStaging, "sums");
    CHECK(count() == 3);
    CHECK(emulated_cuda_runtime().allocations == 3);
    buffers.resize(buffers.size() / 2);               // keeps the parts of the first allocation
    CHECK(emulated_cuda_runtime().allocations == 3);  // the driver keeps the second one
    buffers.resize(1);
    CHECK(emulated_cuda_runtime().allocations == 3);
    buffers.clear();
    CHECK(emulated_cuda_runtime().allocations == 2);
  }
}

TEST_CASE("RuntimeDriver: a first burst of work creates no events") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  const int before = emulated_cuda_runtime().created_events;
  std::vector<std::shared_ptr<const StreamEvent>> burst;
  for (int i = 0; i < 64; ++i) burst.push_back(driver.record(stream));
  CHECK(emulated_cuda_runtime().created_events == before);
  burst.push_back(driver.record(stream));
  CHECK(emulated_cuda_runtime().created_events == before + 1);
}

TEST_CASE("RuntimeDriver: a launch does not report that an earlier event was not reached") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::promise<void> gate;
  driver.issue(stream, work("waits", [opened = gate.get_future().share()] { opened.wait(); }));
  const auto mark = driver.record(stream);
  CHECK_FALSE(mark->reached());
  CHECK(error_of<RunError>([&] { driver.issue(stream, work("relu forward")); }) == "");
  gate.set_value();
}

TEST_CASE("RuntimeDriver: streams and events order operations, and host tasks run in order") {
  const Machine machine;
  std::vector<int> order;      // of the streams' work
  std::atomic<int> begun = 0;  // number of started works, read by tasks
  std::vector<int> done;       // of the tasks
  {
    RuntimeDriver driver(0);
    const Stream compute = driver.make_stream(StreamPriority::kNormal);
    const Stream copies = driver.make_stream(StreamPriority::kHigh);
    std::promise<void> gate;
    const auto opened = gate.get_future().share();
    driver.issue(compute, work("first", [&, opened] {
                   opened.wait();
                   ++begun;
                   order.push_back(1);
                 }));
    const auto first = driver.record(compute);
    CHECK_FALSE(first->reached());
    first->then([&] { done.push_back(begun); });
    driver.wait(copies, first);
    driver.issue(copies, work("second", [&] { order.push_back(2); }));
    const auto second = driver.record(copies);
    driver.wait(compute, second);
    driver.issue(compute, work("third", [&] { order.push_back(3); }));
    const auto third = driver.record(compute);
    for (int i = 0; i < 100; ++i) third->then([&, i] { done.push_back(100 + i); });
    gate.set_value();
    third->wait();
    CHECK(third->reached());
    CHECK(second->reached());
  }
  CHECK(order == std::vector<int>{1, 2, 3});
  REQUIRE(done.size() == 101);  // the driver ran all of them before it ended
  CHECK(done[0] >= 1);
  CHECK(std::ranges::is_sorted(done.begin() + 1, done.end()));
}

TEST_CASE("RuntimeDriver: a timestamp is the time of its completion by the host's clock") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  constexpr int64_t kNapNs = 20'000'000, kSlackNs = 2'000;  // a float of milliseconds is rounded
  const auto first = driver.record_timestamp(stream);
  driver.issue(stream, work("nap", nap));
  const auto second = driver.record_timestamp(stream);
  CHECK_FALSE(second->reached());
  CHECK(error_of<RunError>([&] { static_cast<void>(second->nanoseconds()); }) ==
        "cudaEventElapsedTime: made up (cudaErrorMadeUp)");
  driver.issue(stream, work("another nap", nap));
  const auto third = driver.record_timestamp(stream);
  driver.record(stream)->wait();
  CHECK(third->reached());
  CHECK(second->nanoseconds() - first->nanoseconds() >= kNapNs - kSlackNs);
  CHECK(third->nanoseconds() - second->nanoseconds() >= kNapNs - kSlackNs);
  // The remaining difference depends on delays of the host.
  CHECK(std::abs(third->nanoseconds() - TraceRecorder::now()) < 100 * kNapNs);
}

TEST_CASE("RuntimeDriver: copies work, and an event may outlive the driver") {
  const Machine machine;
  std::shared_ptr<const StreamEvent> mark;
  std::vector<int> values{1, 2, 3}, back(3);
  {
    RuntimeDriver driver(0);
    const Stream stream = driver.make_stream(StreamPriority::kNormal);
    const Buffer memory = driver.allocate(12, MemoryKind::kDevice, "values");
    driver.copy(stream, values.data(), memory.data(), 12);
    driver.copy(stream, memory.data(), back.data(), 12);
    mark = driver.record(stream);
    mark->wait();
    CHECK(back == values);
  }
  CHECK(mark->reached());
  int ran = 0;
  mark->then([&] { ++ran; });
  CHECK(ran == 1);
}

TEST_CASE("RuntimeDriver: a failed launch names the operation, and later launches work") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  emulated_cuda_runtime().launch_error = cudaErrorInvalidValue;
  CHECK(error_of<RunError>([&] { driver.issue(stream, work("relu forward")); }) ==
        "GPU 0: launch: made up (cudaErrorMadeUp); the last operation issued was 'relu forward'");
  CHECK(error_of<RunError>([&] { driver.issue(stream, work("relu forward")); }) == "");
}

TEST_CASE("RuntimeDriver: the next call reports a failed kernel, and no call hangs") {
  const Machine machine;
  {
    RuntimeDriver driver(0);
    const Stream stream = driver.make_stream(StreamPriority::kNormal);
    const Buffer memory = driver.allocate(12, MemoryKind::kDevice, "values");
    std::promise<void> gate;
    driver.issue(stream, work("pooling", [opened = gate.get_future().share()] {
                   opened.wait();
                   emulated_cuda_runtime().sticky = cudaErrorIllegalAddress;
                 }));
    const auto mark = driver.record(stream);
    std::atomic<bool> ran = false;
    mark->then([&] { ran = true; });
    gate.set_value();
    const std::string text =
        "an illegal memory access was encountered (cudaErrorIllegalAddress); the last operation "
        "issued was 'pooling'";
    CHECK(error_of<RunError>([&] { mark->wait(); }) == "GPU 0: cudaEventSynchronize: " + text);
    CHECK(error_of<RunError>([&] { mark->reached(); }) == "GPU 0: cudaEventQuery: " + text);
    CHECK(error_of<RunError>([&] { driver.copy(stream, memory.data(), memory.data(), 12); }) ==
          "GPU 0: cudaMemcpyAsync: " + text);
    CHECK(error_of<RunError>([&] { driver.record(stream); }) != "");
    CHECK_FALSE(ran);
  }
}

TEST_CASE("RuntimeDriver: the next record() throws the exception of a task") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  driver.record(stream)->then([] { throw RunError("a task"); });
  std::string said;
  for (int i = 0; said.empty() && i < 1000; ++i) {
    said = error_of<RunError>([&] { driver.record(stream); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(said == "a task");
}

TEST_CASE("RuntimeDriver: a graph runs each time it is issued, but not when it is made") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::vector<int> values{1, 2}, copied(2), seen;
  std::vector<GraphNode> nodes(3);
  nodes[0].operation = work("first", [&] { ++values[0]; });
  nodes[1] = {.operation = nullptr, .from = values.data(), .to = copied.data(), .bytes = 8};
  nodes[2].operation = work("last", [&] { seen.push_back(copied[0]); });
  const int launches = emulated_cuda_runtime().graph_launches;
  const auto graph = driver.make_graph(stream, nodes);
  driver.record(stream)->wait();
  CHECK(seen.empty());
  for (int i = 0; i < 3; ++i) driver.issue(stream, graph);
  driver.record(stream)->wait();
  CHECK(seen == std::vector<int>{2, 3, 4});
  CHECK(emulated_cuda_runtime().graph_launches - launches == 3);
}

TEST_CASE("RuntimeDriver: destroyed graphs finish their work, and their owner does not wait") {
  const Machine machine;
  std::atomic<int> done = 0;
  {
    RuntimeDriver driver(0);
    const Stream stream = driver.make_stream(StreamPriority::kNormal);
    std::vector<GraphNode> nodes(1);
    nodes[0].operation = work("count", [&] { ++done; });
    std::vector<std::shared_ptr<const Graph>> graphs;
    for (int i = 0; i < 3; ++i) graphs.push_back(driver.make_graph(stream, nodes));
    const int waits = emulated_cuda_runtime().device_waits;
    for (const auto& graph : graphs) driver.issue(stream, graph);
    graphs.clear();
    CHECK(emulated_cuda_runtime().device_waits == waits);
    CHECK(emulated_cuda_runtime().graphs == 0);
  }
  CHECK(done == 3);
}

TEST_CASE("RuntimeDriver: a failure during a capture names the operation, and the stream works") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::vector<GraphNode> nodes(1);
  nodes[0].operation = work("relu forward");
  emulated_cuda_runtime().launch_error = cudaErrorInvalidValue;
  CHECK(error_of<RunError>([&] { driver.make_graph(stream, nodes); }) ==
        "GPU 0: launch: made up (cudaErrorMadeUp); the last operation issued was 'relu forward'");
  // Memory allocation is not allowed during a graph capture.
  nodes[0].operation = std::make_shared<TakesMemory>(driver);
  CHECK(error_of<RunError>([&] { driver.make_graph(stream, nodes); }) != "");
  bool done = false;
  driver.issue(stream, work("another", [&] { done = true; }));
  driver.record(stream)->wait();
  CHECK(done);
}

TEST_CASE("RuntimeDriver: lack of memory for a graph is OutOfMemory, other refusals are RunError") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::vector<GraphNode> nodes(1);
  nodes[0].operation = work("relu forward");
  emulated_cuda_runtime().graph_error = cudaErrorMemoryAllocation;
  CHECK(error_of<OutOfMemory>([&] { driver.make_graph(stream, nodes); }) ==
        "out of memory: cudaGraphInstantiate: made up (cudaErrorMadeUp); reduce the batch, or set "
        "\"device.graphs\" to false");
  emulated_cuda_runtime().graph_error = cudaErrorNotSupported;
  CHECK(error_of<RunError>([&] { driver.make_graph(stream, nodes); }) ==
        "cudaGraphInstantiate: made up (cudaErrorMadeUp)");
  emulated_cuda_runtime().graph_error = cudaSuccess;
  driver.issue(stream, driver.make_graph(stream, nodes));
  driver.record(stream)->wait();
  emulated_cuda_runtime().launch_error = cudaErrorMemoryAllocation;
  CHECK(error_of<OutOfMemory>([&] {
          driver.issue(stream, work("relu forward"));
        }).starts_with("out of memory: GPU 0: launch: "));
}

TEST_CASE("RuntimeDriver: another thread that allocates and frees does not break a capture") {
  const Machine machine;
  std::atomic<bool> ends = false;
  const auto allocating = std::async(std::launch::async, [&] {
    RuntimeDriver driver(0);
    while (!ends) driver.allocate(8, MemoryKind::kDevice, "a checkpoint");
  });
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::vector<GraphNode> nodes(1);
  nodes[0].operation = std::make_shared<SlowToIssue>();
  for (int i = 0; i < 100; ++i)
    CHECK(error_of<RunError>([&] { driver.make_graph(stream, nodes); }) == "");
  ends = true;
}

TEST_CASE("RuntimeDriver: a failure of a graph's kernel names the graph's last operation") {
  const Machine machine;
  RuntimeDriver driver(0);
  const Stream stream = driver.make_stream(StreamPriority::kNormal);
  std::vector<GraphNode> nodes(1);
  std::promise<void> gate;
  nodes[0].operation = work("pooling", [opened = gate.get_future().share()] {
    opened.wait();
    emulated_cuda_runtime().sticky = cudaErrorIllegalAddress;
  });
  const auto graph = driver.make_graph(stream, nodes);
  driver.issue(stream, graph);
  const auto mark = driver.record(stream);
  gate.set_value();
  CHECK(error_of<RunError>([&] {
          mark->wait();
        }).ends_with("the last operation issued was 'pooling'"));
}
