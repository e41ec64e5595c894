// The emulated GPU: it does all that a GPU may do, and finds accesses that nothing orders.

#include "tests/support/gpu/fake_driver.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "core/error.h"
#include "tests/support/error_of.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

using namespace poseidon;
using namespace poseidon::cuda;

namespace {

/// Computes to[0] = 2 * from[0] + 1.
class Step final : public Operation {
 public:
  Step(std::string name, const float* from, float* to)
      : name_(std::move(name)), from_(from), to_(to) {}

  std::string name() const override { return name_; }
  void visit(MemoryVisitor& visitor) const override {
    visitor.reads(from_, sizeof(float));
    visitor.writes(to_, sizeof(float));
  }
  void issue(const Executor&) const override { *to_ = 2 * *from_ + 1; }

 private:
  std::string name_;
  const float* from_;
  float* to_;
};

/// Calls `look`, and declares a read of some memory.
class Look final : public Operation {
 public:
  Look(const void* data, size_t bytes, std::function<void()> look)
      : data_(data), bytes_(bytes), look_(std::move(look)) {}

  std::string name() const override { return "look"; }
  void visit(MemoryVisitor& visitor) const override { visitor.reads(data_, bytes_); }
  void issue(const Executor&) const override { look_(); }

 private:
  const void* data_;
  size_t bytes_;
  std::function<void()> look_;
};

/// A GPU with two streams, and memory for a few floats.
struct Machine {
  explicit Machine(const FakeDriver::Options& options) : driver(options) {}

  void step(Stream stream, const char* name, size_t from, size_t to) {
    driver.issue(stream, std::make_unique<Step>(name, &at(from), &at(to)));
  }
  float& at(size_t index) const { return memory.as<float>().data()[index]; }

  FakeDriver driver;
  Stream first = driver.make_stream(StreamPriority::kNormal),
         second = driver.make_stream(StreamPriority::kHigh);
  Buffer memory = driver.allocate(32, MemoryKind::kStaging, "a test");
};

/// Passes a value from one stream to the other and back.
void pass_around(Machine& machine) {
  machine.step(machine.first, "a", 0, 1);
  const auto made = machine.driver.record(machine.first);
  machine.driver.wait(machine.second, made);
  machine.step(machine.second, "b", 1, 2);
  const auto taken = machine.driver.record(machine.second);
  machine.driver.wait(machine.first, taken);
  machine.step(machine.first, "c", 2, 1);
  machine.driver.record(machine.first)->wait();
}

}  // namespace

TEST_CASE("the emulated GPU: events order streams, in every order by seed") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::atomic<int64_t> waits = 0;
    Machine machine({.seed = seed, .waits = &waits});
    pass_around(machine);
    CHECK(machine.at(1) == 7);
    CHECK(machine.at(2) == 3);
    CHECK(waits == 2);
  }
}

TEST_CASE("the emulated GPU: a missing wait is detected, and both operations are named") {
  const char* expected[] = {
      "\"b\" in stream 1 reads what \"a\" in stream 0 writes, and nothing orders them",
      "\"c\" in stream 0 reads what \"b\" in stream 1 writes, and nothing orders them"};
  for (const int64_t dropped : {0, 1})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Machine machine({.seed = seed, .dropped_wait = dropped});
      CHECK(error_of<LogicError>([&] { pass_around(machine); }) == expected[dropped]);
    }
}

TEST_CASE("the emulated GPU: a write that is not ordered after a read is detected") {
  Machine machine({.seed = 3});
  machine.step(machine.first, "reader", 0, 1);
  CHECK(error_of<LogicError>([&] { machine.step(machine.second, "writer", 3, 0); }) ==
        "\"writer\" in stream 1 writes what \"reader\" in stream 0 reads, and nothing orders them");
}

TEST_CASE("the emulated GPU: an operation outside the device's allocations is detected") {
  Machine machine({});
  float outside = 0;
  CHECK(error_of<LogicError>([&] {
          machine.driver.issue(machine.first,
                               std::make_unique<Step>("a", &machine.at(0), &outside));
        }) == "\"a\" in stream 0 writes 4 bytes that are no one piece of the device's memory");
  CHECK(error_of<LogicError>([&] { machine.step(machine.first, "b", 8, 0); }) ==
        "\"b\" in stream 0 reads 4 bytes that are no one piece of the device's memory");
}

// A guarded region may start at any byte, but must end at a multiple of eight bytes.
#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("the emulated GPU: staging memory is guarded until the host waits for the work on it") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Machine machine({.seed = seed});
    const auto is_guarded = [&](size_t index) {
      return __asan_address_is_poisoned(&machine.at(index)) != 0;
    };
    machine.step(machine.first, "a", 0, 3);
    const auto first = machine.driver.record(machine.first);
    machine.step(machine.second, "b", 0, 7);
    CHECK(!is_guarded(0));
    CHECK(is_guarded(3));
    CHECK(is_guarded(7));
    first->wait();
    CHECK(!is_guarded(3));
    CHECK(is_guarded(7));
    std::atomic<bool> done = false, was_guarded = true;
    machine.driver.record(machine.second)->then([&] {
      was_guarded = is_guarded(7);
      done = true;
    });
    while (!done) std::this_thread::yield();
    CHECK(!was_guarded);
  }
}

TEST_CASE("the emulated GPU: the host cannot access device memory, nor work undeclared memory") {
  FakeDriver driver({});
  const Buffer memory = driver.allocate(64, MemoryKind::kDevice, "a test");
  const auto values = memory.as<float>();
  const auto is_guarded = [&](size_t index) {
    return __asan_address_is_poisoned(&values[index]) != 0;
  };
  bool inside = true, outside = false;
  driver.issue(driver.make_stream(StreamPriority::kNormal),
               std::make_unique<Look>(memory.data(), 2 * sizeof(float), [&] {
                 inside = is_guarded(0);
                 outside = is_guarded(2);
               }));
  CHECK(!inside);
  CHECK(outside);
  CHECK(is_guarded(0));
}
#endif

TEST_CASE("the emulated GPU: work that the host has waited for precedes all later work") {
  Machine machine({.seed = 3});
  machine.step(machine.first, "a", 0, 1);
  machine.driver.record(machine.first)->wait();
  machine.step(machine.second, "b", 1, 1);
  machine.driver.record(machine.second)->wait();
  CHECK(machine.at(1) == 3);
}

TEST_CASE("the emulated GPU: unordered operations run in both orders") {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    std::vector<int> order;
    Machine machine({.seed = seed});
    const auto note = [&](Stream stream, int number) {
      machine.driver.issue(stream, std::make_unique<Look>(
                                       nullptr, 0, [&order, number] { order.push_back(number); }));
      return machine.driver.record(stream);
    };
    const auto first = note(machine.first, 1), second = note(machine.second, 2);
    second->wait();
    first->wait();
    orders.insert(order);
  }
  CHECK(orders.size() == 2);
}

TEST_CASE("the emulated GPU: work progresses while the host does other work") {
  Machine machine({.seed = 9});
  std::atomic<bool> done = false;
  for (int i = 0; i < 20; ++i) machine.step(machine.first, "a", 0, 1);
  machine.driver.record(machine.first)->then([&] { done = true; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(done);
}

TEST_CASE("a CUDA device writes and reads values in segments without loss") {
  for (const uint64_t seed : {0, 1, 2}) {
    CudaDevice device(std::make_unique<FakeDriver>(FakeDriver::Options{.seed = seed}), {});
    std::vector<float> there(5'000'000), back(there.size());
    for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<float>(i % 1000);
    const Buffer memory =
        device.allocate(there.size() * sizeof(float), MemoryKind::kDevice, "a test");
    const Buffer other = device.allocate(memory.bytes(), MemoryKind::kStaging, "a test");
    device.write(std::as_bytes(std::span(there)), std::as_writable_bytes(memory.as<float>()));
    const std::vector<float> sent = there;
    std::ranges::fill(there, 0.0F);
    device.copy(memory.as<float>(), other.as<float>());
    device.read(std::as_bytes(other.as<float>()), std::as_writable_bytes(std::span(back)));
    CHECK(back == sent);
    CHECK(device.record().reached());
  }
}
