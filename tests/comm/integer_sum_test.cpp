// Wire format "int8": plans, and bodies that are no integer blocks.

#include "comm/exchange/integer_sum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "comm/exchange/server_shard.h"
#include "comm/exchange/worker_exchange.h"
#include "comm/plan/chunks.h"
#include "tests/comm/small_plan.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

PlanRequest int8_request(int64_t workers, int64_t shards) {
  PlanRequest request;
  request.workers = workers;
  request.servers = 2;
  request.logical_shards = shards;
  request.global_batch = shards;
  request.scheme = SchemeRule::kPs;
  request.wire = WireFormat::kInt8;
  request.layers = small_network();
  return request;
}

/// Keeps the memory of sums, and the frames that were sent.
class Recorder final : public Outlet, public ExchangeMemory {
 public:
  explicit Recorder(const Plan& plan) {
    for (const LayerPlan& layer : plan.layers) {
      sums_.emplace_back();
      for (const TensorTraffic& tensor : layer.traffic.tensors)
        sums_.back().emplace_back(static_cast<size_t>(tensor.elements));
    }
  }
  void send(NodeId, const FrameHeader& header, Payload payload, Priority) override {
    frames.emplace_back(header, std::move(payload));
  }
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t) override {
    return sums_[layer][tensor];
  }
  std::span<float> factors(uint32_t, uint32_t, uint64_t) override { return {}; }

  std::vector<std::pair<FrameHeader, Payload>> frames;

 private:
  std::vector<std::vector<std::vector<float>>> sums_;
};

std::vector<float> gradient_of(int64_t elements) {
  std::vector<float> gradient(static_cast<size_t>(elements));
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i % 97) * 0.01F - 0.5F;
  return gradient;
}

}  // namespace

TEST_CASE("int8: each piece that is rounded is alone in its chunk and begins a block") {
  const Plan plan = make_plan(int8_request(3, 6));
  for (const Chunk& chunk : plan.chunks) {
    if (!rounds_shards(plan, chunk)) continue;
    CHECK(chunk.pieces.size() == 1);
    CHECK(chunk.pieces[0].first % 256 == 0);
  }
  CHECK(std::ranges::count_if(plan.chunks,
                              [&](const Chunk& chunk) { return rounds_shards(plan, chunk); }) >= 4);
}

TEST_CASE("int8: a plan that follows one of fp32 gets other chunks, and a wrong one is refused") {
  PlanRequest request = int8_request(3, 6);
  request.wire = WireFormat::kFp32;
  request.layers.insert(request.layers.begin(), {convolution_traffic("first", 16, 9),
                                                 convolution_traffic("second", 16, 9)});
  const Plan fp32 = make_plan(request);
  request.wire = WireFormat::kInt8;
  const Plan int8 = follow_plan(request, fp32);
  CHECK(int8.chunks != fp32.chunks);
  CHECK(int8.chunks == make_plan(request).chunks);
  Json json = to_json(fp32);
  json["wire"] = "int8";
  const auto read = [&] { read_plan(json, {"plan.json", ""}, request.layers); };
  CHECK(error_of<ConfigError>(read).starts_with("plan.json: /chunks/0/pieces/"));
  json = to_json(int8);
  const auto cut = std::ranges::find_if(json["chunks"], [](const Json& chunk) {
    return chunk["pieces"][0]["first"].get<int64_t>() > 0;
  });
  REQUIRE(cut != json["chunks"].end());
  const auto before = cut - 1;
  (*before)["pieces"][0]["count"] = (*before)["pieces"][0]["count"].get<int64_t>() - 16;
  (*cut)["pieces"][0]["first"] = (*cut)["pieces"][0]["first"].get<int64_t>() - 16;
  (*cut)["pieces"][0]["count"] = (*cut)["pieces"][0]["count"].get<int64_t>() + 16;
  CHECK(error_of<ConfigError>(read).find("from a multiple of 256 elements on") !=
        std::string::npos);
}

TEST_CASE("int8: factors are chosen if their bf16 values have fewer bytes than integers") {
  PlanRequest request = int8_request(4, 4);
  request.scheme = SchemeRule::kAuto;
  request.layers = {linear_traffic("fc", 512, 1024)};
  const auto scheme_with = [&](WireFormat wire, int64_t batch) {
    request.wire = wire;
    request.global_batch = 4 * batch;
    return make_plan(request).layers[0].scheme;
  };
  // 512 x 1024 values by servers, K x 1536 values by factors, times (P - 1) / P and P - 1.
  CHECK(scheme_with(WireFormat::kFp32, 120) == Scheme::kSfb);
  CHECK(scheme_with(WireFormat::kInt8, 120) == Scheme::kPs);
  CHECK(scheme_with(WireFormat::kInt8, 60) == Scheme::kSfb);
}

TEST_CASE("int8: a server refuses a contribution whose body is no integer blocks") {
  const Plan plan = make_plan(int8_request(2, 2));
  Recorder recorder(plan);
  const auto found = std::ranges::find_if(
      plan.chunks, [&](const Chunk& chunk) { return rounds_shards(plan, chunk); });
  const auto index = static_cast<uint32_t>(found - plan.chunks.begin());
  ServerShard shard(plan, found->server, {.view = 1}, recorder);
  const uint64_t elements = static_cast<uint64_t>(found->elements());
  REQUIRE(elements <= kSliceElements);
  const FrameHeader header{.kind = FrameKind::kContribution,
                           .view = 1,
                           .key = found->key,
                           .chunk = index,
                           .part = {0, 1},
                           .length = static_cast<uint32_t>(rounded_codec().bytes(elements))};
  for (const uint8_t byte : {uint8_t{3}, uint8_t{255}, uint8_t{1}}) {
    const Destination destination = shard.destination(0, header);
    REQUIRE(destination.accepted);
    std::ranges::fill(destination.memory, std::byte{byte});
    CHECK(shard.received(0, header) == "sent values of \"conv\" that are not encoded as \"int8\"");
  }
  CHECK(recorder.frames.empty());
}

TEST_CASE("int8: a worker refuses a sum whose body is no integer blocks") {
  const Plan plan = make_plan(int8_request(2, 2));
  Recorder recorder(plan);
  WorkerExchange worker(plan, 0, {.view = 1}, recorder, recorder, [](uint64_t, uint32_t) {});
  const std::vector<float> gradient = gradient_of(plan.layers[0].traffic.tensors[0].elements);
  worker.contribute(
      0, {.tensor = 0, .part = {0, 1}, .rounded = rounded_shard(plan, 1, 0, 0, 0, 0, gradient)});
  REQUIRE(!recorder.frames.empty());
  FrameHeader header = recorder.frames[0].first;
  header.kind = FrameKind::kSum;
  header.part = {0, 2};
  const NodeId server{Role::kServer, static_cast<uint16_t>(plan.chunks[header.chunk].server)};
  const Destination destination = worker.destination(server, header);
  REQUIRE(destination.accepted);
  std::ranges::fill(destination.memory, std::byte{255});
  CHECK(worker.received(server, header) ==
        "sent a sum of \"conv\" that is not encoded as \"int8\"");
}

TEST_CASE("int8: a value that is not finite stays not finite, and no other block changes") {
  const Plan plan = make_plan(int8_request(1, 2));
  std::vector<float> one = gradient_of(1000), other = gradient_of(1000), sum(1000), clean(1000);
  const auto sum_of = [&](std::span<float> out) {
    IntegerSum all(0, 1000);
    all.add(rounded_shard(plan, 7, 0, 0, 3, 0, one));
    all.add(rounded_shard(plan, 7, 0, 0, 3, 1, other));
    all.take_rounded(rounding_of_sum(7, 0, 3), out);
  };
  sum_of(clean);
  one[300] = std::numeric_limits<float>::infinity();
  sum_of(sum);
  for (size_t i = 0; i < sum.size(); ++i) {
    if (i / 256 == 1)
      CHECK(std::isnan(sum[i]));
    else
      CHECK(sum[i] == clean[i]);
  }
}
