// Factors of two workers: slices in the sparse and the dense form, moved bytes, and refused bodies.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "comm/wire/slices.h"
#include "core/bf16.h"
#include "core/philox.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// Deltas of one sample have two slices, activations one short slice.
constexpr int64_t kDeltaWidth = 65536 + 1000, kActivationWidth = 11;
constexpr uint64_t kDeltaElements = kDeltaWidth, kActivationElements = kActivationWidth;
constexpr NodeId kSender{Role::kWorker, 0};

Plan plan_of_factors(WireFormat wire) {
  PlanRequest request;
  request.workers = request.global_batch = 2;
  request.scheme = SchemeRule::kSfb;
  request.wire = wire;
  request.layers = {{.name = "ip",
                     .type = "linear",
                     .rows = kDeltaWidth,
                     .columns = kActivationWidth,
                     .linear = true,
                     .tensors = {{"ip.weight", kDeltaWidth * kActivationWidth, false}},
                     .factors = FactorSizes{.deltas = kDeltaWidth, .activations = kActivationWidth},
                     .forced = SchemeRule::kSfb}};
  return make_plan(request);
}

struct SentFactor {
  FrameHeader header;
  std::vector<std::byte> body;
  const std::byte* memory = nullptr;
};

class FactorOutlet final : public Outlet {
 public:
  void send(NodeId, const FrameHeader& header, Payload payload, Priority) override {
    frames.push_back({header, {payload.bytes.begin(), payload.bytes.end()}, payload.bytes.data()});
  }
  std::vector<SentFactor> frames;
};

/// The factors of both workers, by kind and step.
class FactorMemory final : public ExchangeMemory {
 public:
  FactorMemory() {
    for (auto& step : factors_) {
      step[kDeltas].resize(2 * kDeltaElements, 77);
      step[kActivations].resize(2 * kActivationElements, 77);
    }
  }
  std::span<float> sum(uint32_t, uint32_t, uint64_t) override { return {}; }
  std::span<float> factors(uint32_t, uint32_t which, uint64_t step) override {
    return factors_[step % 2][which];
  }
  /// The rows of worker 0.
  std::span<float> rows(uint32_t which) {
    return std::span(factors_[0][which]).first(factors_[0][which].size() / 2);
  }

 private:
  std::array<std::array<std::vector<float>, 2>, 2> factors_;
};

struct FactorWorker {
  FactorWorker(WireFormat wire, uint32_t rank, bool carries_payload = true)
      : plan(plan_of_factors(wire)),
        exchange(plan, rank, {.view = 1, .carries_payload = carries_payload}, memory, outlet,
                 [](uint64_t, uint32_t) {}) {}

  /// Delivers a frame to this worker. Returns why it is refused, or "".
  std::string deliver(FrameHeader header, const std::vector<std::byte>& body) {
    if (!body.empty()) header.length = body.size();
    const Destination destination = exchange.destination(kSender, header);
    if (!destination.accepted) return destination.fault;
    CHECK(destination.memory.size() == body.size());
    std::ranges::copy(body, destination.memory.begin());
    return exchange.received(kSender, header);
  }

  const Plan plan;
  FactorMemory memory;
  FactorOutlet outlet;
  WorkerExchange exchange;
};

FrameHeader factor_header(uint32_t which, uint64_t offset = 0) {
  return {.kind = FrameKind::kFactor, .view = 1, .chunk = which, .part = {0, 1}, .offset = offset};
}

/// One tenth of the first slice of deltas is not zero; the second slice has no zero.
void fill(FactorMemory& memory) {
  RandomStream random(3, RandomPurpose::kGeneration, 0, 0);
  const std::span<float> deltas = memory.rows(kDeltas);
  for (size_t i = 0; i < deltas.size(); ++i)
    deltas[i] = i < kSliceElements && random.next_below(10) > 0 ? 0 : random.next_uniform(1, 2);
  deltas[5] = -0.0f;
  deltas[6] = std::numeric_limits<float>::quiet_NaN();
  deltas[7] = std::numeric_limits<float>::denorm_min();
  std::ranges::copy(std::vector<float>{0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0},
                    memory.rows(kActivations).begin());
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("factors: each slice is sent in its shorter form, and arrives with the sender's bits") {
  for (const auto& [wire, width] : {std::pair(WireFormat::kFp32, 4), {WireFormat::kBf16, 2}}) {
    CAPTURE(width);
    FactorWorker sender(wire, 0), receiver(wire, 1);
    fill(sender.memory);
    sender.exchange.contribute(0, {.step = 0, .part = {0, 1}});
    const std::vector<SentFactor>& frames = sender.outlet.frames;
    REQUIRE(frames.size() == 3);
    CHECK(frames[0].header.length < kSliceElements * static_cast<uint64_t>(width) / 4);
    CHECK(frames[1].header.length == 1000U * static_cast<uint64_t>(width));
    CHECK(frames[1].header.offset == kSliceElements);
    CHECK(frames[2].header.length == 2U + 2U * static_cast<uint64_t>(width));
    const bool from_memory = frames[1].memory == reinterpret_cast<const std::byte*>(
                                                     &sender.memory.rows(kDeltas)[kSliceElements]);
    CHECK(from_memory == (wire == WireFormat::kFp32));
    uint64_t bytes = 0;
    for (const SentFactor& frame : frames) {
      CHECK(frame.header.length == frame.body.size());
      CHECK(receiver.deliver(frame.header, frame.body) == "");
      bytes += frame.body.size();
    }
    for (const uint32_t which : {kDeltas, kActivations})
      CHECK(same_bits(sender.memory.rows(which), receiver.memory.rows(which)));
    CHECK(receiver.memory.factors(0, kActivations, 0).back() == 77);  // its own row
    CHECK(sender.exchange.bytes_of_layers()[0].sent == bytes);
    CHECK(receiver.exchange.bytes_of_layers()[0].received == bytes);
    CHECK(receiver.exchange.awaiting(kSender) == "");
  }
}

TEST_CASE("factors: frames of a planning run have the lengths of the dense form") {
  FactorWorker sender(WireFormat::kBf16, 0, false);
  sender.exchange.contribute(0, {.step = 0, .part = {0, 1}});
  uint64_t bytes = 0;
  for (const SentFactor& frame : sender.outlet.frames) {
    CHECK(frame.body.empty());
    bytes += frame.header.length;
  }
  CHECK(bytes == 2 * (kDeltaElements + kActivationElements));
}

TEST_CASE("factors: a length that no form has is refused before the body arrives") {
  for (const auto& [wire, width] : {std::pair(WireFormat::kFp32, 4), {WireFormat::kBf16, 2}}) {
    FactorWorker receiver(wire, 1);
    const auto fault = [&](uint32_t which, uint64_t offset, uint64_t length) {
      FrameHeader header = factor_header(which, offset);
      header.length = length;
      return receiver.exchange.destination(kSender, header).fault;
    };
    const auto bytes = static_cast<uint64_t>(width);
    CHECK(fault(kActivations, 0, 1) ==
          "sent 1 bytes from element 0 of a factor of logical shard 0, expected one slice of its "
          "11 elements");
    for (const uint64_t length : {uint64_t{0}, uint64_t{3}, 2 + bytes + 1, 2 + 11 * bytes,
                                  12 * bytes, uint64_t{1} << 40, ~uint64_t{0}})
      CHECK(fault(kActivations, 0, length) != "");
    CHECK(fault(kActivations, 1, 2) != "");
    CHECK(fault(kActivations, kSliceElements, 2) != "");
    CHECK(fault(kDeltas, kSliceElements, kSliceElements / 8) != "");
    CHECK(fault(kDeltas, 2 * kSliceElements, 2) != "");
    CHECK(fault(kDeltas, kSliceElements, 125) == "");
    CHECK(fault(kActivations, 0, 2) == "");
    CHECK(fault(kActivations, 0, 11 * bytes) == "");
  }
}

TEST_CASE("factors: a body that contradicts its length is refused and changes nothing") {
  for (const auto& [wire, width] : {std::pair(WireFormat::kFp32, 4), {WireFormat::kBf16, 2}}) {
    const auto bytes = static_cast<size_t>(width);
    for (const auto& [low, high] : {std::pair(0x01, 0x01), {0x00, 0x00}, {0x00, 0x08}, {0, 0x80}}) {
      FactorWorker receiver(wire, 1);
      std::vector<std::byte> body(2 + bytes, std::byte{1});
      body[0] = static_cast<std::byte>(low);
      body[1] = static_cast<std::byte>(high);
      CHECK(receiver.deliver(factor_header(kActivations), body) ==
            "sent a factor of \"ip\" whose bitmap does not match its length of " +
                std::to_string(body.size()) + " bytes");
      for (const float value : receiver.memory.rows(kActivations)) CHECK(value == 77);
      CHECK(receiver.exchange.awaiting(kSender) != "");
      CHECK(receiver.exchange.bytes_of_layers()[0].received == 0);
    }
  }
}
