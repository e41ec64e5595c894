// Graph capture: replayed work, its order, and checks that repeated work does not change.

#include "core/cuda/cuda_graph_capture.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu/fake_driver.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::cuda;

namespace {

/// Computes *to = *to + *from + more.
struct AddKernel {
  static constexpr const char* kName = "add";
  static constexpr uint32_t kThreads = 32;

  const float* from;
  float* to;
  uint8_t more;  // the padding after it is not compared

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(from, sizeof(float));
    visitor.reads(to, sizeof(float));
    visitor.writes(to, sizeof(float));
  }
  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    if (thread.thread() == 0) *to += *from + static_cast<float>(more);
  }
};

/// A device with memory for a few floats, and work that repeats.
struct Machine {
  explicit Machine(uint64_t seed = 1, Graphs graphs = Graphs::kCompared, Log* log = nullptr)
      : device(std::make_unique<FakeDriver>(FakeDriver::Options{.seed = seed}),
               {.graphs = graphs, .min_graph_operations = 1, .log = log}) {}

  float& at(size_t index) { return memory.as<float>()[index]; }
  std::span<float> value(size_t index) { return memory.as<float>().subspan(index, 1); }
  void add(size_t from, size_t to, uint8_t more = 0) {
    device.launch(AddKernel{&at(from), &at(to), more}, {});
  }
  void set(size_t index, float number) {
    device.write(std::as_bytes(std::span(&number, 1)), std::as_writable_bytes(value(index)));
  }
  float get(size_t index) {
    float number = 0;
    device.read(std::as_bytes(value(index)), std::as_writable_bytes(std::span(&number, 1)));
    return number;
  }

  CudaDevice device;
  Buffer memory = device.allocate(64, MemoryKind::kDevice, "a test");
  std::unique_ptr<GraphCapture> repeats = device.make_graph_capture();
};

std::string error_of_second(Machine& machine, const std::function<void()>& first,
                            const std::function<void()>& second) {
  for (int i = 0; i < 3; ++i) machine.repeats->issue({"pass", {4, -1}}, first);
  return error_of<LogicError>([&] { machine.repeats->issue({"pass", {4, -1}}, second); });
}

}  // namespace

TEST_CASE("graph capture: repeated work reads current memory, in every order") {
  for (const Graphs graphs : {Graphs::kNone, Graphs::kUsed, Graphs::kCompared})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Machine machine(seed, graphs);
      float expected = 0;
      for (int step = 0; step < 6; ++step) {
        machine.set(0, static_cast<float>(step));
        machine.repeats->issue({"pass", {}}, [&] {
          machine.add(0, 1);
          machine.device.copy(machine.value(1), machine.value(2));
          machine.add(2, 1);
        });
        expected = 2 * (expected + static_cast<float>(step));
        CHECK(machine.get(1) == expected);
      }
    }
}

TEST_CASE("graph capture: work is issued the first time, recorded the second, then replayed") {
  Machine machine(0, Graphs::kUsed);
  int calls = 0;
  for (const int64_t number : {7, 7, 7, 8, 7, 8, 8})
    machine.repeats->issue({"pass", {number}}, [&] {
      ++calls;
      machine.add(0, 1, 1);
    });
  CHECK(calls == 4);
  CHECK(machine.get(1) == 7);
  for (int i = 0; i < 4; ++i) machine.repeats->issue({"nothing", {}}, [] {});
}

TEST_CASE("graph capture: work with few operations is never a graph") {
  for (const size_t operations : {0, 1, 3, 4, 9}) {
    CudaDevice device(std::make_unique<FakeDriver>(FakeDriver::Options{}), {});
    const Buffer memory = device.allocate(64, MemoryKind::kDevice, "a test");
    float* const value = memory.as<float>().data();
    const std::unique_ptr<GraphCapture> capture = device.make_graph_capture();
    int calls = 0;
    for (int step = 0; step < 5; ++step)
      capture->issue({"pass", {}}, [&] {
        ++calls;
        for (size_t i = 0; i < operations; ++i) device.launch(AddKernel{value, value + 1, 1}, {});
      });
    // In the second step, the capture calls short work twice: to count the operations, and to issue
    // them.
    CHECK(calls == (operations < Settings{}.min_graph_operations ? 6 : 2));
    float sum = 0;
    device.read(std::as_bytes(memory.as<float>().subspan(1, 1)),
                std::as_writable_bytes(std::span(&sum, 1)));
    CHECK(sum == static_cast<float>(5 * operations));
  }
}

TEST_CASE("graph capture: a refused graph is reported once, and its work is issued one by one") {
  int refusals = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    WarningLog log;
    Machine machine(seed, Graphs::kUsed, &log);
    int calls = 0;
    for (int step = 0; step < 5; ++step)
      for (const int64_t number : {7, 8, 9})
        machine.repeats->issue({"pass", {number}}, [&] {
          ++calls;
          machine.add(0, 1, 1);
        });
    CHECK(machine.get(1) == 15);
    // A graph takes two calls, a refused graph one more in step 1 and one in each later step.
    const int refused = (calls - 6) / 4;
    CHECK(calls == 6 + 4 * refused);
    const std::string said = log.lines();
    CHECK(said.starts_with("CUDA refused the graph of pass ") == (refused > 0));
    CHECK(said.find("CUDA", 1) == std::string::npos);
    refusals += refused;
  }
  CHECK(refusals > 0);
  CHECK(refusals < 19 * 3);
}

TEST_CASE("graph capture: a graph keeps its stream's order, and its end orders other streams") {
  for (uint64_t seed = 1; seed < 40; ++seed) {
    Machine machine(seed);
    for (int step = 0; step < 4; ++step) {
      const Event end =
          machine.device.issue_on_stream(DeviceStream::kUpdate, machine.device.record(), [&] {
            machine.repeats->issue({"update", {}}, [&] { machine.add(0, 1, 1); });
          });
      machine.device.await(end);
      machine.add(1, 0);
    }
    CHECK(machine.get(1) == 21);
  }
}

TEST_CASE("graph capture: unordered work on a graph's memory is detected") {
  Machine machine;
  const auto work = [&] { machine.repeats->issue({"pass", {}}, [&] { machine.add(0, 1); }); };
  for (int i = 0; i < 3; ++i) work();
  const Event now = machine.device.record();
  work();
  CHECK(error_of<LogicError>([&] {
          machine.device.issue_on_stream(DeviceStream::kSend, now, [&] { machine.add(1, 2); });
        }) == "\"add\" in stream 2 reads what \"add\" in stream 0 writes, and nothing orders them");
}

TEST_CASE("graph capture: a changed operation is detected, with key and operation") {
  const auto error_of_change = [](const auto& change) {
    Machine machine;
    const auto first = [&] {
      machine.add(0, 1);
      machine.add(1, 2, 3);
    };
    return error_of_second(machine, first, [&] { change(machine); });
  };
  const std::string what = "graph of pass 4 -1: operation 1, recorded as \"add\", ";
#if __has_builtin(__builtin_clear_padding)  // without it, arguments are not compared
  CHECK(error_of_change([](Machine& machine) {
          machine.add(0, 1);
          machine.add(1, 2, 4);
        }) == what + "has different arguments now");
#endif
  CHECK(error_of_change([](Machine& machine) {
          machine.add(0, 1);
          machine.add(1, 3, 3);
        }) == what + "uses different memory now");
  CHECK(error_of_change([](Machine& machine) {
          machine.add(0, 1);
          machine.device.copy(machine.value(1), machine.value(2));
        }) == what + "is \"copy\" now");
  CHECK(error_of_change([](Machine& machine) { machine.add(0, 1); }) ==
        "graph of pass 4 -1: expected the 2 recorded operations, got 1");
  CHECK(error_of_change([](Machine& machine) {
          machine.add(0, 1);
          machine.add(1, 2, 3);
        }) == "");
}

TEST_CASE("graph capture: a changed copy or grid size is detected") {
  Machine machine;
  CHECK(error_of_second(
            machine, [&] { machine.device.copy(machine.value(1), machine.value(2)); },
            [&] { machine.device.copy(machine.value(1), machine.value(3)); }) ==
        "graph of pass 4 -1: operation 0, recorded as \"copy\", copies different memory now");
#if __has_builtin(__builtin_clear_padding)
  Machine other;
  const AddKernel kernel{&other.at(0), &other.at(1), 0};
  CHECK(error_of_second(
            other, [&] { other.device.launch(kernel, {}); },
            [&] { other.device.launch(kernel, {.blocks = 2}); }) ==
        "graph of pass 4 -1: operation 0, recorded as \"add\", has different arguments now");
#endif
}

TEST_CASE("graph capture: a call that cannot be part of a graph is rejected during recording") {
  const auto is_refused = [](const auto& call) {
    Machine machine(1, Graphs::kUsed);
    const auto work = [&] { call(machine.device, machine.value(0)); };
    machine.repeats->issue({"pass", {}}, work);
    return error_of<LogicError>([&] { machine.repeats->issue({"pass", {}}, work); }) != "";
  };
  CHECK(is_refused([](CudaDevice& device, std::span<float>) { device.record(); }));
  CHECK(is_refused([](CudaDevice& device, std::span<float>) { device.await({}); }));
  CHECK(is_refused([](CudaDevice& device, std::span<float> value) {
    const float number = 1;
    device.write(std::as_bytes(std::span(&number, 1)), std::as_writable_bytes(value));
  }));
  CHECK(is_refused([](CudaDevice& device, std::span<float>) {
    device.issue_on_stream(DeviceStream::kSend, {}, [] {});
  }));
}
