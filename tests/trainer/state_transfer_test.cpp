// State transfer: the coordinator forwards values to a joiner slice by slice.

#include "comm/membership/state_transfer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/exchange/tensor_intake.h"
#include "comm/wire/slices.h"
#include "trainer/coordinator/checkpoint_reception.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

constexpr uint32_t kView = 3;
constexpr int64_t kStep = 12;
/// The second tensor needs two slices.
const Json kList = {
    {"parameters", 2},
    {"weights", {{{"name", "a"}, {"shape", {5}}}, {{"name", "b"}, {"shape", {100'000}}}}},
    {"optimizer", {{{"name", "a.momentum"}, {"shape", {5}}}}},
    {"sums", {{{"name", "a.sum"}, {"shape", {5}}}}},
    {"sum_steps", 1}};

/// The coordinator's forwarding of tensors, and the workers that receive them.
struct Coordinator {
  Coordinator() { reception.expect(kList); }

  /// Starts a view in which `receivers` wait for values. Returns whether worker 0 is asked for
  /// them.
  bool begin(const std::vector<uint16_t>& receivers) {
    handover.begin_view(kView, receivers.size());
    bool asked = false;
    for (const uint16_t each : receivers) {
      CHECK_FALSE(asked);
      asked = handover.add(each);
    }
    return asked;
  }
  /// A slice of a checkpoint arrives from a worker. Returns whether it is accepted.
  bool take(uint16_t from, const comm::FrameHeader& header, const comm::Payload& slice) {
    const comm::Destination destination = reception.destination(from, header);
    REQUIRE_MESSAGE(destination.fault.empty(), destination.fault);
    if (destination.accepted) std::ranges::copy(slice.bytes, destination.memory.begin());
    const comm::Payload same = reception.received(from, header);
    handover.pass_on(
        from, header, same,
        [this](uint16_t to, const comm::FrameHeader& onward, const comm::Payload& payload) {
          sent.push_back({to, onward, payload});
        });
    return destination.accepted;
  }
  /// All slices of a checkpoint arrive.
  void take_all(uint16_t from, uint32_t number, uint32_t view = kView) {
    for (uint32_t key = 0; key < values.size(); ++key)
      comm::send_tensor({.view = view, .step = kStep, .key = key, .chunk = number},
                        {std::as_bytes(std::span(values[key])), nullptr},
                        [&](const comm::FrameHeader& header, const comm::Payload& slice) {
                          take(from, header, slice);
                        });
  }

  struct Sent {
    uint16_t to = 0;
    comm::FrameHeader header;
    comm::Payload payload;
  };
  std::vector<std::vector<float>> values{
      std::vector<float>(5, 1.5F), std::vector<float>(100'000, 2.5F), std::vector<float>(5, 3.5F)};
  CheckpointReception reception;
  comm::StateTransfer handover;
  std::vector<Sent> sent;
};

}  // namespace

TEST_CASE("each slice of worker 0's values is forwarded complete and at once to all joiners") {
  Coordinator coordinator;
  CHECK(coordinator.reception.tensors_without_sums() == 3);
  REQUIRE(coordinator.begin({1, 2}));
  coordinator.take_all(0, 1);
  REQUIRE(coordinator.sent.size() == 2 * 4);
  for (uint16_t to = 1; to <= 2; ++to) {
    std::vector<std::vector<float>> received{std::vector<float>(5), std::vector<float>(100'000),
                                             std::vector<float>(5)};
    std::vector<std::span<std::byte>> memory;
    for (std::vector<float>& tensor : received)
      memory.push_back(std::as_writable_bytes(std::span(tensor)));
    comm::TensorIntake intake(memory);
    for (const Coordinator::Sent& each : coordinator.sent) {
      if (each.to != to) continue;
      CHECK(each.header.view == kView);
      const comm::Destination destination = intake.destination(each.header);
      REQUIRE(destination.accepted);
      std::ranges::copy(each.payload.bytes, destination.memory.begin());
      CHECK(intake.received());
    }
    CHECK(intake.complete());
    CHECK(received == coordinator.values);
  }
}

TEST_CASE("forwarded slices stay valid after the checkpoint is taken") {
  Coordinator coordinator;
  REQUIRE(coordinator.begin({1}));
  coordinator.take_all(0, 1);
  coordinator.reception.take(0, kStep, {.number = 1, .in_flight = 0, .digest = {}});
  float first = 0;
  std::memcpy(&first, coordinator.sent[0].payload.bytes.data(), sizeof first);
  CHECK(first == 1.5F);
}

TEST_CASE("no other slice is forwarded") {
  Coordinator coordinator;
  SUBCASE("before any joiner waits") { coordinator.take_all(0, 1); }
  SUBCASE("before all joiners can receive") {
    coordinator.handover.begin_view(kView, 2);
    CHECK_FALSE(coordinator.handover.add(2));
    coordinator.take_all(0, 1);
  }
  SUBCASE("of another worker") {
    REQUIRE(coordinator.begin({2}));
    coordinator.take_all(1, 1);
  }
  SUBCASE("of another view") {
    REQUIRE(coordinator.begin({2}));
    coordinator.take_all(0, 1, kView + 1);
  }
  SUBCASE("a checkpoint after the values") {
    REQUIRE(coordinator.begin({2}));
    coordinator.handover.end();
    coordinator.take_all(0, 2);
  }
  CHECK(coordinator.sent.empty());
}

TEST_CASE("a slice that arrives twice is forwarded once") {
  Coordinator coordinator;
  REQUIRE(coordinator.begin({1}));
  const comm::FrameHeader header{.kind = comm::FrameKind::kTensor,
                                 .view = kView,
                                 .step = kStep,
                                 .key = 0,
                                 .chunk = 1,
                                 .length = 20};
  const comm::Payload slice{std::as_bytes(std::span(coordinator.values[0])), nullptr};
  CHECK(coordinator.take(0, header, slice));
  CHECK_FALSE(coordinator.take(0, header, slice));
  CHECK(coordinator.sent.size() == 1);
}
