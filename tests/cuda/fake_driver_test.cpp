// The GPU that the host plays: it does all that a GPU may do, and finds what nothing orders.

#include "tests/support/gpu/fake_driver.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::cuda;

namespace {

/// to[0] = 2 * from[0] + 1.
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

/// Two streams, and memory for a few numbers.
struct Machine {
  explicit Machine(const FakeDriver::Options& options) : driver(options) {}

  void step(Stream stream, const char* name, size_t from, size_t to) {
    driver.issue(stream, std::make_unique<Step>(name, &at(from), &at(to)));
  }
  float& at(size_t index) const { return memory.as<float>()[index]; }

  FakeDriver driver;
  Stream first = driver.make_stream(Urgency::kUsual), second = driver.make_stream(Urgency::kHigh);
  Buffer memory = driver.allocate(16, Place::kDevice, "a test");
};

/// A value goes from stream to stream and back.
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

TEST_CASE("the played GPU: marks order streams, whatever the order by seed") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::atomic<int64_t> waits = 0;
    Machine machine({.seed = seed, .waits = &waits});
    pass_around(machine);
    CHECK(machine.at(1) == 7);
    CHECK(machine.at(2) == 3);
    CHECK(waits == 2);
  }
}

TEST_CASE("the played GPU: a wait that is left out is found, and both operations are named") {
  const char* expected[] = {
      "\"b\" in stream 1 reads what \"a\" in stream 0 writes, and nothing orders them",
      "\"c\" in stream 0 reads what \"b\" in stream 1 writes, and nothing orders them"};
  for (const int64_t dropped : {0, 1})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Machine machine({.seed = seed, .dropped_wait = dropped});
      CHECK(error_of<LogicError>([&] { pass_around(machine); }) == expected[dropped]);
    }
}

TEST_CASE("the played GPU: memory that is read must not be written before") {
  Machine machine({.seed = 3});
  machine.step(machine.first, "reader", 0, 1);
  CHECK(error_of<LogicError>([&] { machine.step(machine.second, "writer", 3, 0); }) ==
        "\"writer\" in stream 1 writes what \"reader\" in stream 0 reads, and nothing orders them");
}

TEST_CASE("the played GPU: what the host has waited for is before all that it issues") {
  Machine machine({.seed = 3});
  machine.step(machine.first, "a", 0, 1);
  machine.driver.record(machine.first)->wait();
  machine.step(machine.second, "b", 1, 1);
  machine.driver.record(machine.second)->wait();
  CHECK(machine.at(1) == 3);
}

TEST_CASE("the played GPU: what nothing orders is done in both orders") {
  std::set<bool> second_was_earlier;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    Machine machine({.seed = seed});
    machine.step(machine.first, "a", 0, 1);
    const auto first = machine.driver.record(machine.first);
    machine.step(machine.second, "b", 2, 3);
    machine.driver.record(machine.second)->wait();
    second_was_earlier.insert(machine.at(1) == 0);
  }
  CHECK(second_was_earlier.size() == 2);
}

TEST_CASE("the played GPU: it goes on while the host does something else") {
  Machine machine({.seed = 9});
  std::atomic<bool> done = false;
  for (int i = 0; i < 20; ++i) machine.step(machine.first, "a", 0, 1);
  machine.driver.record(machine.first)->then([&] { done = true; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(done);
}

TEST_CASE("a CUDA device brings values there and back, in pieces") {
  for (const uint64_t seed : {0, 1, 2}) {
    CudaDevice device(std::make_unique<FakeDriver>(FakeDriver::Options{.seed = seed}), {});
    std::vector<float> there(5'000'000), back(there.size());
    for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<float>(i % 1000);
    const Buffer memory = device.allocate(there.size() * sizeof(float), Place::kDevice, "a test");
    const Buffer other = device.allocate(memory.bytes(), Place::kStaging, "a test");
    device.write(std::as_bytes(std::span(there)), std::as_writable_bytes(memory.as<float>()));
    const std::vector<float> sent = there;
    std::ranges::fill(there, 0.0F);
    device.copy(memory.as<float>(), other.as<float>());
    device.read(std::as_bytes(other.as<float>()), std::as_writable_bytes(std::span(back)));
    CHECK(back == sent);
    CHECK(device.record().reached());
  }
}
