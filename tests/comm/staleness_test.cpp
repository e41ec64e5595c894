// A server and a worker accept data from steps ahead: as many steps as the plan's staleness, and no
// more.

#include <doctest/doctest.h>

#include <numeric>

#include "comm/exchange/server_shard.h"
#include "comm/exchange/worker_exchange.h"

using namespace poseidon::comm;

namespace {

constexpr int64_t kElements = 1000;

struct Sent {
  NodeId to;
  FrameHeader header;
  std::vector<float> values;
};

/// Records sent frames.
class Kept final : public Outlet {
 public:
  void send(NodeId to, const FrameHeader& header, Payload payload, Priority) override {
    // The sparse form of a factor may end within a float.
    Sent sent{to, header, std::vector<float>((payload.bytes.size() + 3) / sizeof(float))};
    std::ranges::copy(payload.bytes, std::as_writable_bytes(std::span(sent.values)).begin());
    frames.push_back(std::move(sent));
  }
  std::vector<Sent> frames;
};

/// Two workers, two logical shards, one server. The layer is a convolution of one chunk, or a
/// linear layer.
Plan plan_of(int64_t staleness, SchemeRule scheme) {
  PlanRequest request;
  request.workers = request.global_batch = 2;
  request.scheme = scheme;
  request.staleness = staleness;
  if (scheme == SchemeRule::kPs)
    request.layers = {
        {.name = "conv", .type = "convolution", .tensors = {{"conv.weight", kElements, false}}}};
  else
    request.layers = {{.name = "ip",
                       .type = "linear",
                       .rows = 3,
                       .columns = 4,
                       .linear = true,
                       .tensors = {{"ip.weight", 12, false}},
                       .factors = FactorSizes{.deltas = 3, .activations = 4},
                       .forced = SchemeRule::kSfb}};
  return make_plan(request);
}

FrameHeader frame(FrameKind kind, uint64_t step, Part part, uint64_t elements = kElements) {
  return {.kind = kind, .view = 1, .step = step, .part = part, .length = elements * sizeof(float)};
}

/// Delivers a frame filled with `value` if the receiver accepts it. Returns the receiver's answer.
template <class Receiver, class Sender>
Destination deliver(Receiver& receiver, Sender from, const FrameHeader& header, float value) {
  Destination destination = receiver.destination(from, header);
  if (!destination.accepted) return destination;
  const std::vector<float> values(header.length / sizeof(float), value);
  std::ranges::copy(std::as_bytes(std::span(values)), destination.memory.begin());
  receiver.received(from, header);
  return destination;
}

/// Delivers a worker's contribution.
Destination give(ServerShard& server, uint32_t worker, uint64_t step, float value) {
  return deliver(server, worker, frame(FrameKind::kContribution, step, {worker, 1}), value);
}

/// The memory of a worker with one layer: buffers for all steps that may be in flight.
class Memory final : public ExchangeMemory {
 public:
  explicit Memory(const Plan& plan)
      : sums(static_cast<size_t>(plan.staleness + 1), std::vector<float>(kElements)),
        factors_(2, std::vector(steps_of_factors(plan), std::vector<float>(8))) {}
  std::span<float> sum(uint32_t, uint32_t, uint64_t step) override {
    return sums[step % sums.size()];
  }
  std::span<float> factors(uint32_t, uint32_t which, uint64_t step) override {
    std::vector<float>& memory = factors_[which][step % factors_[which].size()];
    return std::span(memory).first(which == kDeltas ? 6 : 8);
  }
  std::vector<std::vector<float>> sums;

 private:
  std::vector<std::vector<std::vector<float>>> factors_;
};

constexpr NodeId kServer{Role::kServer, 0}, kPeer{Role::kWorker, 1};

/// One worker, and the steps whose sums have arrived.
struct Worker {
  explicit Worker(const Plan& of)
      : plan(of),
        memory(plan),
        exchange(plan, 0, {.view = 1}, memory, outlet,
                 [this](uint64_t step, uint32_t) { arrived.push_back(step); }) {}

  Destination take_sum(uint64_t step, float value) {
    return deliver(exchange, kServer, frame(FrameKind::kSum, step, {0, 2}), value);
  }

  /// Delivers both factors of the peer's shard.
  Destination take_factors(uint64_t step) {
    Destination destination;
    for (const uint32_t which : {kDeltas, kActivations}) {
      FrameHeader header = frame(FrameKind::kFactor, step, {1, 1}, which == kDeltas ? 3 : 4);
      header.chunk = which;
      destination = deliver(exchange, kPeer, header, 0);
      if (!destination.accepted) return destination;
    }
    return destination;
  }

  const Plan plan;
  Memory memory;
  Kept outlet;
  std::vector<uint64_t> arrived;
  WorkerExchange exchange;
};

}  // namespace

TEST_CASE("a server sums staleness + 1 steps at the same time") {
  for (const int64_t staleness : {0, 1, 3}) {
    const Plan plan = plan_of(staleness, SchemeRule::kPs);
    Kept outlet;
    ServerShard server(plan, 0, {.view = 1}, outlet);
    const auto most = static_cast<uint64_t>(staleness);
    for (uint64_t step = 0; step <= most; ++step)
      CHECK(give(server, 0, step, static_cast<float>(step)).accepted);
    const Destination refused = give(server, 0, most + 1, 0);
    CHECK(!refused.accepted);
    CHECK(refused.fault == "sent a contribution to step " + std::to_string(most + 1) +
                               " before the sum of step 0 is complete");
    CHECK(outlet.frames.empty());
    CHECK(give(server, 1, 0, 10).accepted);
    REQUIRE(outlet.frames.size() == 2);  // the sum, to both workers
    CHECK(outlet.frames[0].header.step == 0);
    CHECK(give(server, 0, most + 1, 5).accepted);
    for (uint64_t step = 1; step <= most; ++step) {
      CHECK(give(server, 1, step, 10).accepted);
      CHECK(outlet.frames.back().header.step == step);
      CHECK(outlet.frames.back().values ==
            std::vector<float>(kElements, 10 + static_cast<float>(step)));
    }
    CHECK(give(server, 1, most + 1, 1).accepted);
    CHECK(outlet.frames.back().values == std::vector<float>(kElements, 6));
    CHECK(server.bytes_held() == 0);
  }
}

TEST_CASE("a repeated contribution to any step in flight is dropped") {
  const Plan plan = plan_of(2, SchemeRule::kPs);
  Kept outlet;
  ServerShard server(plan, 0, {.view = 1}, outlet);
  for (uint64_t step : {0, 1, 2}) give(server, 0, step, 1);
  for (uint64_t step : {0, 1, 2}) {
    const Destination again = give(server, 0, step, 7);
    CHECK(!again.accepted);
    CHECK(again.fault.empty());
  }
  CHECK(server.traffic().repeated == 3);
  for (uint64_t step : {0, 1, 2}) give(server, 1, step, 1);
  for (const Sent& sent : outlet.frames) CHECK(sent.values[0] == 2);
}

TEST_CASE("a later step that is summed first counts only after the earlier step") {
  const Plan plan = plan_of(1, SchemeRule::kPs);
  Kept outlet;
  ServerShard server(plan, 0, {.view = 1}, outlet);
  give(server, 0, 1, 3);
  give(server, 1, 1, 4);
  REQUIRE(outlet.frames.size() == 2);
  CHECK(outlet.frames[0].header.step == 1);
  CHECK(!give(server, 0, 2, 0).fault.empty());
  give(server, 0, 0, 1);
  give(server, 1, 0, 1);
  CHECK(give(server, 0, 2, 0).accepted);
}

TEST_CASE("a worker awaits staleness + 1 sums, each in separate memory") {
  for (const int64_t staleness : {0, 2}) {
    Worker worker(plan_of(staleness, SchemeRule::kPs));
    const auto most = static_cast<uint64_t>(staleness);
    for (uint64_t step = 0; step <= most; ++step) {
      std::ranges::fill(worker.memory.sums[step], static_cast<float>(step));
      worker.exchange.contribute(
          0, {.step = step, .part = {0, 1}, .values = worker.memory.sums[step]});
      CHECK(worker.outlet.frames.back().header.step == step);
    }
    CHECK(worker.outlet.frames.size() == most + 1);
    CHECK_THROWS(worker.exchange.contribute(
        0, {.step = most + 1, .part = {0, 1}, .values = worker.memory.sums[0]}));
    CHECK(!worker.take_sum(most + 1, 1).fault.empty());
    CHECK(worker.exchange.awaiting({Role::kServer, 0}) ==
          "the sum of \"conv\" of step 1 from server 0");
    for (uint64_t step = 0; step <= most; ++step)
      CHECK(worker.take_sum(step, 100 + static_cast<float>(step)).accepted);
    for (uint64_t step = 0; step <= most; ++step)
      CHECK(worker.memory.sums[step] ==
            std::vector<float>(kElements, 100 + static_cast<float>(step)));
    std::vector<uint64_t> all(most + 1);
    std::iota(all.begin(), all.end(), 0);
    CHECK(worker.arrived == all);
    CHECK(worker.exchange.step_of(0) == most + 1);
  }
}

TEST_CASE("sums received out of order are delivered in order") {
  Worker worker(plan_of(1, SchemeRule::kPs));
  for (uint64_t step : {0, 1})
    worker.exchange.contribute(0,
                               {.step = step, .part = {0, 1}, .values = worker.memory.sums[step]});
  CHECK(worker.take_sum(1, 2).accepted);
  CHECK(worker.arrived.empty());
  CHECK(!worker.take_sum(1, 2).accepted);
  CHECK(worker.take_sum(0, 1).accepted);
  CHECK(worker.arrived == std::vector<uint64_t>{0, 1});
}

TEST_CASE("factors of peers may be 2 x staleness + 1 steps ahead") {
  for (const int64_t staleness : {0, 1, 2}) {
    Worker worker(plan_of(staleness, SchemeRule::kSfb));
    const auto most = static_cast<uint64_t>(2 * staleness + 1);
    for (uint64_t step = 0; step <= most; ++step) CHECK(worker.take_factors(step).accepted);
    CHECK(worker.take_factors(most + 1).fault ==
          "sent a factor of step " + std::to_string(most + 1) + ", expected step 0");
    CHECK(worker.take_factors(1).fault.empty());
    CHECK(worker.exchange.traffic().repeated == 1);
    worker.exchange.contribute(0, {.part = {0, 1}});
    CHECK(worker.arrived == std::vector<uint64_t>{0});
    CHECK(worker.take_factors(most + 1).accepted);
  }
}
