#include "comm/exchange/tensor_intake.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "comm/wire/slices.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// Two tensors: one of three slices with a short last slice, and a small one.
struct Store {
  std::vector<std::byte> large = std::vector<std::byte>(2 * kSliceBytes + 100);
  std::vector<std::byte> small = std::vector<std::byte>(8);
  std::vector<std::span<std::byte>> memory() { return {large, small}; }
};

std::vector<FrameHeader> frames_of(uint32_t number, uint64_t step) {
  Store store;
  std::vector<FrameHeader> headers;
  for (uint32_t key = 0; key < 2; ++key)
    send_tensor({.step = step, .key = key, .chunk = number}, {store.memory()[key], nullptr},
                [&](const FrameHeader& header, const Payload&) { headers.push_back(header); });
  return headers;
}

/// All bytes of a checkpoint have the same value, different from that of other checkpoints.
std::byte value_of(uint64_t step) { return static_cast<std::byte>(step); }

class Intake {
 public:
  /// Delivers a frame as a connection does. Returns whether it was accepted.
  bool deliver(uint16_t worker, const FrameHeader& header) {
    const Destination destination = intake.destination(worker, header);
    fault = destination.fault;
    if (!destination.accepted) return false;
    std::memset(destination.memory.data(), static_cast<int>(value_of(header.step)), header.length);
    intake.received(worker);
    return true;
  }
  void deliver_all(uint16_t worker, const std::vector<FrameHeader>& headers) {
    for (const FrameHeader& header : headers) CHECK(deliver(worker, header));
  }

  CheckpointIntake<Store> intake{[this] {
    ++made;
    return std::make_shared<Store>();
  }};
  std::string fault;
  int made = 0;
};

bool holds_only(const Store& store, std::byte value) {
  const auto is_value = [&](std::byte each) { return each == value; };
  return std::ranges::all_of(store.large, is_value) && std::ranges::all_of(store.small, is_value);
}

}  // namespace

TEST_CASE("a checkpoint is complete when all its slices have arrived") {
  Intake in;
  const std::vector<FrameHeader> frames = frames_of(1, 100);
  REQUIRE(frames.size() == 4);
  for (size_t i = 0; i < frames.size(); ++i) {
    CHECK(error_of<ConfigError>([&] { in.intake.take(0, 1, 100); }) ==
          (i == 0
               ? "received no tensor of the checkpoint of step 100"
               : text("the checkpoint of step 100 lacks ", counted(frames.size() - i, "slice"))));
    CHECK(in.deliver(0, frames[i]));
  }
  const auto store = in.intake.take(0, 1, 100);
  CHECK(holds_only(*store, value_of(100)));
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 1, 100); }) ==
        "received no tensor of the checkpoint of step 100");
}

TEST_CASE("a checkpoint of fewer tensors is complete without the last tensors") {
  Intake in;
  const std::vector<FrameHeader> frames = frames_of(1, 100);
  const auto slices_of_first =
      std::ranges::count(frames, 0U, [](const FrameHeader& frame) { return frame.key; });
  for (int64_t i = 0; i + 1 < slices_of_first; ++i)
    CHECK(in.deliver(0, frames[static_cast<size_t>(i)]));
  const auto one = [](const auto&) { return size_t{1}; };
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 1, 100, one); }) ==
        "the checkpoint of step 100 lacks 1 slice");
  CHECK(in.deliver(0, frames[static_cast<size_t>(slices_of_first - 1)]));
  CHECK(in.intake.take(0, 1, 100, one) != nullptr);
}

TEST_CASE("a repeated slice counts once, and a slice with a truncated body does not count") {
  Intake in;
  const std::vector<FrameHeader> frames = frames_of(1, 5);
  CHECK(in.deliver(0, frames[0]));
  CHECK(!in.deliver(0, frames[0]));
  CHECK(in.fault == "");
  CHECK(in.intake.destination(0, frames[1])
            .accepted);  // the connection ends in the middle of the body
  for (size_t i = 2; i < frames.size(); ++i) CHECK(in.deliver(0, frames[i]));
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 1, 5); }) ==
        "the checkpoint of step 5 lacks 1 slice");
}

TEST_CASE("a frame that is no slice of the checkpoint's tensors is rejected") {
  Intake in;
  FrameHeader header = frames_of(1, 5)[0];
  header.key = 2;
  CHECK(!in.deliver(0, header));
  CHECK(in.fault == "sent a tensor frame with key 2, expected a key below 2");
  header.key = 0;
  header.offset = uint64_t{1} << 40;
  CHECK(!in.deliver(0, header));
  CHECK(in.fault ==
        "sent 262144 bytes at offset 1099511627776 of tensor 0, which has 524388 bytes");
  header.offset = 0;
  header.length = 0;
  CHECK(!in.deliver(0, header));
  CHECK(in.fault == "sent 0 bytes at offset 0 of tensor 0, which has 524388 bytes");
  header = frames_of(1, 6)[0];
  CHECK(!in.deliver(0, header));
  CHECK(in.fault == "sent a tensor of step 6 within the checkpoint of step 5");
  header.kind = FrameKind::kSum;
  CHECK(!in.deliver(0, header));
  CHECK(in.fault == "sent a sum frame, expected a tensor");
}

TEST_CASE("interleaved checkpoints of two workers are not mixed") {
  // Worker 0 is sending the checkpoint of step 100 when a node fails. Worker 1 is one step ahead
  // and is asked for its checkpoint.
  Intake in;
  const std::vector<FrameHeader> periodic = frames_of(7, 100), survivor = frames_of(1, 101);
  for (size_t i = 0; i < periodic.size(); ++i) {
    if (i != 2) CHECK(in.deliver(0, periodic[i]));
    CHECK(in.deliver(1, survivor[i]));
  }
  CHECK(in.made == 2);
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 7, 100); }) ==
        "the checkpoint of step 100 lacks 1 slice");
  CHECK(holds_only(*in.intake.take(1, 1, 101), value_of(101)));
}

TEST_CASE("a worker may abandon a checkpoint and begin another one of the same step") {
  Intake in;
  const std::vector<FrameHeader> first = frames_of(1, 100), second = frames_of(2, 100);
  CHECK(in.deliver(0, first[0]));
  in.deliver_all(0, second);
  // A repeated frame of the first checkpoint belongs to no checkpoint.
  CHECK(!in.deliver(0, first[1]));
  CHECK(in.fault == "");
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 1, 100); }) != "");
  CHECK(error_of<ConfigError>([&] { in.intake.take(0, 2, 99); }) ==
        "received the checkpoint of step 100, expected step 99");
  CHECK(holds_only(*in.intake.take(0, 2, 100), value_of(100)));
}

TEST_CASE("a worker with the rank of a failed one restarts the checkpoint numbers") {
  Intake in;
  in.deliver(0, frames_of(1, 100)[0]);  // the worker failed before it sent the rest
  in.intake.forget(0);
  in.deliver_all(0, frames_of(1, 200));
  CHECK(in.fault == "");
  CHECK(holds_only(*in.intake.take(0, 1, 200), value_of(200)));
}

TEST_CASE("a checkpoint store is not freed while a body is read into it") {
  Intake in;
  const std::vector<FrameHeader> frames = frames_of(1, 100);
  const Destination open = in.intake.destination(0, frames[0]);
  in.deliver_all(1, frames_of(1, 101));
  in.intake.take(1, 1, 101);
  std::memset(open.memory.data(), 1,
              open.memory.size());  // the address sanitizer would report a freed buffer
  in.intake.received(0);
  for (size_t i = 1; i < frames.size(); ++i) CHECK(in.deliver(0, frames[i]));
  CHECK(in.intake.take(0, 1, 100) != nullptr);
}
