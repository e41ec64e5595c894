// Whole jobs on the simulated network, with the state machines of the real processes.

#include <doctest/doctest.h>

#include "comm/plan/traffic.h"
#include "comm/simulation/job.h"
#include "comm/simulation/model.h"
#include "tests/comm/small_plan.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using poseidon::test::kIsSanitized;
using poseidon::test::kStride;

namespace {

LayerTraffic convolution(const char* name, int64_t elements) {
  return {.name = name,
          .type = "convolution",
          .tensors = {{std::string(name) + ".weight", elements, false},
                      {std::string(name) + ".bias", 16, false, true}}};
}

LayerTraffic linear(const char* name, int64_t rows, int64_t columns) {
  return {.name = name,
          .type = "linear",
          .rows = rows,
          .columns = columns,
          .linear = true,
          .tensors = {{std::string(name) + ".weight", rows * columns, false},
                      {std::string(name) + ".bias", rows, false, true}},
          .factors = FactorSizes{.deltas = rows, .activations = columns}};
}

PlanRequest request_of(int64_t workers, int64_t servers, int64_t shards, SchemeRule scheme) {
  PlanRequest request;
  request.workers = workers;
  request.servers = servers;
  request.logical_shards = shards;
  request.global_batch = shards + 1;
  request.scheme = scheme;
  request.layers = {convolution("conv1", 40'000), convolution("conv2", 120), linear("ip1", 20, 70),
                    linear("ip2", 5, 20)};
  return request;
}

SimulatedJobOptions options_of(const Plan& plan) {
  SimulatedJobOptions options{.plan = plan, .network = {}};
  options.network.jitter = std::chrono::microseconds(300);
  return options;
}

SimulatedJobOptions options_of(const PlanRequest& request) {
  return options_of(make_plan(request));
}

/// Checks the bytes that a layer has moved. Integers in exact sums of several shards have a usual
/// width of 2 bytes, but may have 1. About half of the activations are zero and not sent.
void check_bytes(const Plan& plan, size_t layer, const LayerBytes& moved, int64_t expected) {
  const auto bytes = static_cast<int64_t>(moved.sent + moved.received);
  const bool has_factors = traits_of(plan.layers[layer].scheme).sends_factors();
  const bool has_exact_sums =
      plan.wire == WireFormat::kInt8 && plan.logical_shards() != plan.workers();
  if (has_factors && expected > 0)
    CHECK(bytes < expected * 4 / 5);
  else if (!has_exact_sums)
    CHECK(bytes == expected);
  CHECK(bytes <= expected);
  CHECK(bytes >= expected / 2);
}

}  // namespace

TEST_CASE("every number of workers and servers computes the values of one process") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kInt8})
      for (int64_t workers = 1; workers <= 5; workers += kIsSanitized ? 4 : 1)
        for (int64_t servers : {int64_t{1}, workers, int64_t{7}}) {
          PlanRequest request = request_of(workers, servers, 12, scheme);
          request.wire = wire;
          const SimulatedJobOptions options = options_of(request);
          const SimulatedJobResult result = run_job(options);
          CAPTURE(description(options));
          CHECK(fault_in(options, result) == "");
          CHECK(result.outcome->finished);
        }
}

TEST_CASE("all numbers of workers compute the same values") {
  // PS only: its sums do not depend on the assignment of logical shards.
  for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kInt8}) {
    std::vector<uint32_t> digests;
    for (int64_t workers = 1; workers <= 5; ++workers) {
      PlanRequest request = request_of(workers, 2, 12, SchemeRule::kPs);
      request.wire = wire;
      digests.push_back(run_job(options_of(request)).digests.at(0));
    }
    CHECK(digests == std::vector<uint32_t>(5, digests[0]));
  }
}

TEST_CASE("each layer sends the bytes of the plan, or fewer with factors") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16, WireFormat::kInt8})
      for (int64_t shards : {3, 8}) {
        PlanRequest request = request_of(3, 2, shards, scheme);
        request.wire = wire;
        SimulatedJobOptions options = options_of(request);
        options.steps = 4;
        const SimulatedJobResult result = run_job(options);
        REQUIRE(result.outcome->finished);
        const std::vector<LayerTrafficBytes> expected = expected_traffic(options.plan);
        for (size_t layer = 0; layer < expected.size(); ++layer) {
          CAPTURE(options.plan.layers[layer].traffic.name);
          const LayerBytes& moved = result.bytes_of_layers[layer];
          check_bytes(options.plan, layer, moved, 4 * total_bytes(expected[layer]));
          CHECK(static_cast<double>(total_bytes(expected[layer])) ==
                doctest::Approx(3 * options.plan.layers[layer].bytes));
        }
      }
}

TEST_CASE("jobs whose factors have zeros compute the values of one process") {
  for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16})
    for (const int64_t staleness : {0, 2}) {
      PlanRequest request = request_of(3, 1, 8, SchemeRule::kSfb);
      // The activations of one shard have several slices.
      request.layers = {linear("ip1", 3, 40'000), linear("ip2", 5, 20)};
      request.global_batch = 24;
      request.wire = wire;
      request.staleness = staleness;
      const SimulatedJobOptions options = options_of(request);
      const SimulatedJobResult result = run_job(options);
      CAPTURE(description(options));
      CHECK(fault_in(options, result) == "");
      REQUIRE(result.outcome->finished);
      CHECK(result.digests.at(2) == reference_digest(options.plan, options.seed, options.steps));
      const std::vector<LayerTrafficBytes> expected = expected_traffic(options.plan);
      for (size_t layer = 0; layer < expected.size(); ++layer)
        check_bytes(options.plan, layer, result.bytes_of_layers[layer],
                    options.steps * total_bytes(expected[layer]));
    }
}

TEST_CASE("unequal shards on any worker yield the values of one process") {
  const std::vector<std::vector<Part>> all{
      {{0, 4}, {4, 1}, {5, 2}}, {{5, 2}, {0, 4}, {4, 1}}, {{6, 1}, {0, 1}, {1, 5}}};
  for (const auto& [scheme, wire] : {std::pair(SchemeRule::kPs, WireFormat::kFp32),
                                     std::pair(SchemeRule::kSfb, WireFormat::kFp32),
                                     std::pair(SchemeRule::kAuto, WireFormat::kFp32),
                                     std::pair(SchemeRule::kPs, WireFormat::kInt8)}) {
    PlanRequest request = request_of(1, 1, 7, scheme);
    request.wire = wire;
    const uint32_t alone = run_job(options_of(request)).digests.at(0);
    request.workers = 3;
    request.servers = 2;
    const Plan even = make_plan(request);
    for (const std::vector<Part>& ranges : all)
      for (int64_t staleness = 0; staleness <= 2; staleness += kIsSanitized ? 4 : 2) {
        Plan plan = with_assignment(even, assigned(ranges, 2));
        plan.staleness = staleness;
        const SimulatedJobOptions options = options_of(plan);
        const SimulatedJobResult result = run_job(options);
        CAPTURE(description(options));
        CHECK(fault_in(options, result) == "");
        REQUIRE(result.outcome->finished);
        // kAuto may choose other schemes than a job of one worker.
        if (scheme != SchemeRule::kAuto) CHECK(result.digests.at(1) == alone);
        CHECK(result.digests.at(1) == run_job(options_of(even)).digests.at(1));
        const std::vector<LayerTrafficBytes> expected = expected_traffic(plan);
        for (size_t layer = 0; layer < expected.size(); ++layer) {
          const LayerBytes& moved = result.bytes_of_layers[layer];
          check_bytes(options.plan, layer, moved, 10 * total_bytes(expected[layer]));
        }
      }
  }
}

TEST_CASE("traffic within a host does not count in the bytes of a layer") {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb}) {
    const Assignment shared(std::vector<AssignedWorker>{{.shards = {0, 4}, .host = 1},
                                                        {.shards = {4, 1}, .host = 1, .member = 1},
                                                        {.shards = {5, 2}, .host = 0, .member = 2}},
                            std::vector<AssignedServer>{{.host = 2}, {.host = 1, .member = 1}});
    const Plan plan = with_assignment(make_plan(request_of(3, 2, 7, scheme)), shared);
    const SimulatedJobResult result = run_job(options_of(plan));
    REQUIRE(result.outcome->finished);
    const std::vector<LayerTrafficBytes> expected = expected_traffic(plan);
    for (size_t layer = 0; layer < expected.size(); ++layer) {
      const LayerBytes& moved = result.bytes_of_layers[layer];
      check_bytes(plan, layer, moved, 10 * total_bytes(expected[layer]));
    }
  }
}

TEST_CASE("repeated and outdated frames change nothing") {
  SimulatedJobOptions options = options_of(request_of(3, 2, 5, SchemeRule::kAuto));
  options.network.duplication = options.network.outdated = 0.3;
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in(options, result) == "");
  CHECK(result.repeated > 20);
  CHECK(result.outdated > 20);
}

TEST_CASE("with wire format bf16, all workers have the same bits in every run") {
  PlanRequest request = request_of(3, 2, 5, SchemeRule::kAuto);
  request.wire = WireFormat::kBf16;
  const SimulatedJobResult first = run_job(options_of(request)),
                           second = run_job(options_of(request));
  CHECK(first.outcome->finished);
  CHECK(first.digests.at(0) == first.digests.at(2));
  CHECK(first.digests == second.digests);
}

TEST_CASE("after a halt, all workers end after the same step") {
  for (uint64_t event : {400, 500, 600, 700}) {
    SimulatedJobOptions options = options_of(request_of(4, 2, 4, SchemeRule::kAuto));
    options.steps = 1000;
    options.faults = {{.kind = Fault::Kind::kHalt, .at_event = event}};
    const SimulatedJobResult result = run_job(options);
    CHECK(fault_in(options, result) == "");
    CHECK(result.outcome->finished);
    CHECK(result.steps.at(0) < 1000);
  }
}

TEST_CASE("a silent worker is reported after the timeout, a worker in a slow step is not") {
  SimulatedJobOptions options = options_of(request_of(3, 2, 3, SchemeRule::kPs));
  options.timeout = std::chrono::seconds(3);
  options.forward = std::chrono::seconds(8);  // a step of 32 s and more
  options.steps = 2;
  CHECK(fault_in(options, run_job(options)) == "");
  options.faults = {{.kind = Fault::Kind::kPause, .at_event = 900, .a = {Role::kWorker, 1}}};
  const SimulatedJobResult result = run_job(options);
  CHECK(fault_in(options, result) == "");
  REQUIRE(result.failures.contains(0));
  CHECK(result.failures.at(0).why == "no heartbeat for 3 s");
}

TEST_CASE("priority: the first layer's sum does not wait for the large sum of the last layer") {
  // The last layer's gradient fills the link for a long time. The first layer's gradient is small.
  PlanRequest request = request_of(2, 2, 2, SchemeRule::kPs);
  request.layers = {convolution("first", 1000), convolution("last", 4'000'000)};
  SimulatedJobOptions options = options_of(request);
  options.network.bytes_per_second = 1.25e8;
  options.carries_payload = false;
  options.steps = 5;
  // While the last layer's sum is in transit, the next forward pass runs the first layer.
  options.times = {{.forward_ms = 50, .backward_ms = 1}, {.forward_ms = 1, .backward_ms = 1}};
  const Time by_priority = run_job(options).duration;
  options.plan.overlap = Overlap::kBarrier;
  const Time in_order = run_job(options).duration;
  CHECK(by_priority < in_order - 4 * std::chrono::milliseconds(30));
}

TEST_CASE("a diverged replica is reported, and the job ends") {
  SimulatedJobOptions options = options_of(request_of(3, 2, 3, SchemeRule::kAuto));
  options.diverges = {1, 5};
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  REQUIRE(!result.outcome->finished);
  CHECK(result.outcome->failure.message() ==
        "worker 1 (w1) diverged from the other workers in step 8: \"all values\" differs from that "
        "of 2 other workers after 8 steps");
}

TEST_CASE("a worker without progress causes warnings, then fails the job at the stall timeout") {
  SimulatedJobOptions options = options_of(request_of(3, 2, 3, SchemeRule::kPs));
  options.stalls = {2, 4};
  options.stall_timeout = std::chrono::seconds(200);
  options.agree_every = options.steps;  // so that the coordinator requests step 4 from a survivor
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  REQUIRE(!result.outcome->finished);
  CHECK(result.outcome->failure.kind == NodeFailure::Kind::kStall);
  CHECK(result.outcome->failure.who == NodeId{Role::kWorker, 2});
  CHECK(result.outcome->failure.step == 5);
  CHECK(result.outcome->saved_step == 4);
  REQUIRE(result.checkpoints.contains(4));
  CHECK(result.checkpoints.at(4) == reference_digest(options.plan, options.seed, 4));
  REQUIRE(result.warnings.size() == 3);  // after 60, 120 and 180 s
  CHECK(result.warnings[0].ends_with("; steps completed: 4"));
}

TEST_CASE("a worker may build its net for longer than the timeout, up to the stall timeout") {
  SimulatedJobOptions options = options_of(request_of(3, 2, 3, SchemeRule::kAuto));
  options.preparation = 5 * options.timeout;
  CHECK(fault_in(options, run_job(options)) == "");
  options.stall_timeout = 3 * options.timeout;
  const SimulatedJobResult result = run_job(options);
  CHECK(result.ended);
  REQUIRE(!result.outcome->finished);
  CHECK(result.outcome->failure.message() ==
        "worker 0 (w0) stalled before the first step: no progress for 30 s; last activity: "
        "building the net");
}

TEST_CASE("late sums: every number of workers and servers computes the values of one process") {
  for (const int64_t staleness : {1, 2, 5})
    for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
      for (int64_t workers = 2; workers <= 5; workers += kIsSanitized ? 4 : 3) {
        PlanRequest request = request_of(workers, 3, 12, scheme);
        request.staleness = staleness;
        SimulatedJobOptions options = options_of(request);
        options.network.duplication = options.network.outdated = 0.1;
        const SimulatedJobResult result = run_job(options);
        CAPTURE(description(options));
        CHECK(fault_in(options, result) == "");
        CHECK(result.outcome->finished);
        CHECK(result.agreed.size() == 3);  // after 4, 8 and all 10 steps
      }
}

TEST_CASE("late sums: each layer sends the bytes of the plan, or fewer with factors") {
  for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16, WireFormat::kInt8}) {
    PlanRequest request = request_of(3, 2, 8, SchemeRule::kAuto);
    request.wire = wire;
    request.staleness = 2;
    const SimulatedJobOptions options = options_of(request);
    const SimulatedJobResult result = run_job(options);
    REQUIRE(result.outcome->finished);
    const std::vector<LayerTrafficBytes> expected = expected_traffic(options.plan);
    for (size_t layer = 0; layer < expected.size(); ++layer) {
      const LayerBytes& moved = result.bytes_of_layers[layer];
      check_bytes(options.plan, layer, moved, 10 * total_bytes(expected[layer]));
    }
  }
}

TEST_CASE("late sums hide communication that lasts as long as the computation") {
  PlanRequest request = request_of(2, 2, 2, SchemeRule::kPs);
  request.layers = {convolution("one", 1'000'000), convolution("two", 1'000'000)};
  SimulatedJobOptions options = options_of(request);
  options.network.bytes_per_second = 1e9;
  options.network.jitter = Time{0};
  options.carries_payload = false;
  options.steps = 40;
  options.agree_every = 40;
  options.forward = options.backward = std::chrono::milliseconds(2);
  const Time on_time = run_job(options).duration;
  options.plan.staleness = 1;
  const Time late = run_job(options).duration;
  CHECK(late < on_time * 9 / 10);
}

TEST_CASE("a stalled server is reported with the sum that a worker awaited from it") {
  for (uint64_t seed = 1; seed <= 40; seed += kStride) {
    SimulatedJobOptions options = options_of(request_of(3, 2, 3, SchemeRule::kAuto));
    options.seed = seed;
    options.steps = 1000;
    const auto server = static_cast<uint16_t>(seed % 2);
    options.faults = {
        {.kind = Fault::Kind::kPause, .at_event = 2000 + 97 * seed, .a = {Role::kServer, server}}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    REQUIRE(result.outcome.has_value());
    const NodeFailure& failure = result.outcome->failure;
    CHECK(failure.who == NodeId{Role::kServer, server});
    CHECK(failure.awaited.starts_with("worker "));
    CHECK(failure.awaited.find(" awaited the sum of \"") != std::string::npos);
    CHECK(failure.awaited.ends_with(" from " + name_of(failure.who)));
  }
}

TEST_CASE("late sums: factors of a peer that is far ahead do not overwrite unused factors") {
  // Links are slow at random times, and computation is fast. With buffers for only staleness + 2
  // steps of factors, this test computes wrong values.
  for (const int64_t staleness : {1, 2, 3})
    for (const int jitter_ms : {2, 10, 50}) {
      PlanRequest request = request_of(3, 1, 3, SchemeRule::kSfb);
      request.layers = {linear("ip", 4, 5)};
      request.staleness = staleness;
      SimulatedJobOptions options = options_of(request);
      options.network.jitter = std::chrono::milliseconds(jitter_ms);
      options.steps = options.agree_every = 60;
      for (options.seed = 1; options.seed <= 5; ++options.seed) {
        CAPTURE(description(options));
        CHECK(fault_in(options, run_job(options)) == "");
      }
    }
}

TEST_CASE("traffic between a worker and a server of one host does not use the host's link") {
  // One server. If it is on the host of worker 0, that worker gets the sums without delay.
  PlanRequest request = request_of(2, 1, 2, SchemeRule::kPs);
  request.layers = {convolution("only", 1'000'000)};
  const auto duration = [&](bool apart) {
    request.servers_apart = apart;
    SimulatedJobOptions options = options_of(request);
    options.network = {.bytes_per_second = 1e6, .delay = Time{0}};
    options.carries_payload = false;
    options.steps = 2;
    const SimulatedJobResult result = run_job(options);
    REQUIRE(result.outcome->finished);
    return std::chrono::duration<double>(result.duration).count();
  };
  // Each worker on another host takes 4 s in each of two steps. The sums of the last slices take a
  // little longer.
  CHECK(duration(false) == doctest::Approx(2 * 4).epsilon(0.1));
  CHECK(duration(true) == doctest::Approx(2 * 2 * 4).epsilon(0.1));
}

TEST_CASE("all processes of a host share one link") {
  // Four servers share the link of one host. They send all data to two workers on other hosts.
  PlanRequest request = request_of(2, 4, 2, SchemeRule::kPs);
  request.layers = {convolution("first", 400'000), convolution("last", 1'600'000)};
  const Plan even = make_plan(request);
  const auto duration = [&](std::vector<AssignedServer> servers) {
    SimulatedJobOptions options = options_of(
        with_assignment(even, Assignment(even.assignment.workers(), std::move(servers))));
    options.network = {.bytes_per_second = 1e7, .delay = Time{0}};
    options.carries_payload = false;
    options.steps = 2;
    const SimulatedJobResult result = run_job(options);
    REQUIRE(result.outcome->finished);
    return result.duration;
  };
  const Time together = duration(
      {{.host = 2}, {.host = 2, .member = 1}, {.host = 2, .member = 2}, {.host = 2, .member = 3}});
  const Time apart = duration(
      {{.host = 2}, {.host = 3, .member = 1}, {.host = 4, .member = 2}, {.host = 5, .member = 3}});
  CHECK(together > apart * 17 / 10);
}
