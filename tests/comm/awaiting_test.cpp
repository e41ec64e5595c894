// The description in a failure message of the data that a node awaits from another node.

#include <doctest/doctest.h>

#include "comm/exchange/server_shard.h"
#include "comm/exchange/worker_exchange.h"

using namespace poseidon::comm;

namespace {

constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }
constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }

LayerTraffic convolution(const char* name) {
  return {.name = name, .type = "convolution", .tensors = {{std::string(name) + ".w", 16'384}}};
}

/// Two layers on separate servers, and one that uses sufficient factors.
Plan plan_of_three_workers() {
  PlanRequest request;
  request.workers = 3;
  request.servers = 2;
  request.global_batch = 3;
  request.layers = {convolution("conv1"),
                    convolution("conv2"),
                    {.name = "ip",
                     .type = "linear",
                     .rows = 4,
                     .columns = 5,
                     .linear = true,
                     .tensors = {{"ip.w", 20}},
                     .factors = FactorSizes{.deltas = 4, .activations = 5},
                     .forced = SchemeRule::kSfb}};
  return make_plan(request);
}

class Nowhere final : public Outlet, public ExchangeMemory {
 public:
  void send(NodeId, const FrameHeader&, Payload, Priority) override {}
  std::span<float> sum(uint32_t, uint32_t, uint64_t) override { return {}; }
  std::span<float> factors(uint32_t, uint32_t, uint64_t) override { return {}; }
};

}  // namespace

TEST_CASE("a worker reports what it awaits from a given node") {
  const Plan plan = plan_of_three_workers();
  REQUIRE(plan.chunks.size() == 2);
  Nowhere nowhere;
  const WorkerExchange exchange(plan, 0, {.view = 1, .carries_payload = false}, nowhere, nowhere,
                                [](uint64_t, uint32_t) {});
  for (const Chunk& chunk : plan.chunks) {
    const auto rank = static_cast<uint16_t>(chunk.server);
    CHECK(exchange.awaiting(server(rank)) == "the sum of \"" + plan.layers[chunk.key].traffic.name +
                                                 "\" of step 1 from server " +
                                                 std::to_string(rank));
  }
  CHECK(exchange.awaiting(worker(1)) == "the factors of \"ip\" of step 1 from worker 1");
  CHECK(exchange.awaiting(worker(2)) == "the factors of \"ip\" of step 1 from worker 2");
  CHECK(exchange.awaiting({}) == "");
}

TEST_CASE("a server reports what it awaits from a given worker") {
  const Plan plan = plan_of_three_workers();
  Nowhere nowhere;
  const Chunk& chunk = plan.chunks[0];
  ServerShard shard(plan, chunk.server, {.view = 1, .carries_payload = false}, nowhere);
  CHECK(shard.awaiting(1) == "");  // no worker has sent anything
  const FrameHeader contribution{.kind = FrameKind::kContribution,
                                 .view = 1,
                                 .key = chunk.key,
                                 .chunk = 0,
                                 .part = {0, 1},
                                 .length = 65'536};
  REQUIRE(shard.destination(0, contribution).accepted);
  shard.received(0, contribution);
  CHECK(shard.awaiting(0) == "");
  for (const uint32_t rank : {1, 2})
    CHECK(shard.awaiting(rank) == "the gradient of \"" + plan.layers[chunk.key].traffic.name +
                                      "\" of step 1 from worker " + std::to_string(rank));
}
