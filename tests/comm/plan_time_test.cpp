// Predicted step times, and policy "time", which chooses schemes by them.

#include <doctest/doctest.h>

#include "comm/plan/plan.h"
#include "core/error.h"
#include "tests/comm/small_plan.h"
#include "tests/comm/vgg19.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// Four layers of 1 ms forward and 1 ms backward. The link moves 1000 bytes per millisecond.
PlanRequest timed_request() {
  PlanRequest request = on_nodes(small_network(), 4);
  request.policy = Policy::kTime;
  request.times.assign(4, {1, 1});
  request.link_mbps = 8;
  request.rebuild_gflops = 1000;
  return request;
}

double predicted_with(PlanRequest request, SchemeRule scheme) {
  request.policy = Policy::kBytes;
  request.scheme = scheme;
  return make_plan(request).predicted_step_ms;
}

}  // namespace

TEST_CASE("predicted seconds on the wire for one step, in one direction") {
  struct Row {
    int64_t classes, nodes;
    double hybrid_10g, all_ps_10g, hybrid_40g, all_ps_40g;
  };
  const std::vector<Row> rows{
      {1000, 2, 0.068, 0.460, 0.017, 0.115},   {1000, 4, 0.109, 0.690, 0.027, 0.172},
      {1000, 8, 0.143, 0.805, 0.036, 0.201},   {1000, 16, 0.185, 0.862, 0.046, 0.216},
      {1000, 32, 0.259, 0.891, 0.065, 0.223},  {21841, 2, 0.071, 0.733, 0.018, 0.183},
      {21841, 4, 0.116, 1.099, 0.029, 0.275},  {21841, 8, 0.158, 1.283, 0.039, 0.321},
      {21841, 16, 0.218, 1.374, 0.054, 0.344}, {21841, 32, 0.325, 1.420, 0.081, 0.355}};
  for (const Row& row : rows) {
    CAPTURE(row.classes);
    CAPTURE(row.nodes);
    // Without compute, the predicted time is the time on the wire.
    PlanRequest request = on_nodes(vgg19(row.classes), row.nodes);
    request.times.assign(request.layers.size(), {0, 0});
    const auto planned = [&](SchemeRule scheme, double mbps) {
      request.scheme = scheme;
      request.link_mbps = mbps;
      return make_plan(request);
    };
    // The formula assumes even shards. The slowest node has the largest shard.
    const auto check_near = [](const Plan& plan, double value) {
      const double predicted = plan.predicted_step_ms / 1000;
      CHECK(predicted > value - 0.0006);
      CHECK(predicted < value * plan.hottest_shard_over_mean + 0.0006);
    };
    check_near(planned(SchemeRule::kAuto, 10000), row.hybrid_10g);
    check_near(planned(SchemeRule::kPs, 10000), row.all_ps_10g);
    check_near(planned(SchemeRule::kAuto, 40000), row.hybrid_40g);
    check_near(planned(SchemeRule::kPs, 40000), row.all_ps_40g);
  }
}

TEST_CASE("policy \"time\" predicts a step no slower than any other rule") {
  PlanRequest request = timed_request();
  for (const Overlap overlap : {Overlap::kPriority, Overlap::kBarrier, Overlap::kNone})
    for (const double mbps : {8.0, 1000.0, 100000.0})
      for (const double gflops : {0.01, 1.0, 1000.0}) {
        request.overlap = overlap;
        request.link_mbps = mbps;
        request.rebuild_gflops = gflops;
        const double predicted = make_plan(request).predicted_step_ms;
        CHECK(predicted > 0);
        for (const SchemeRule scheme : {SchemeRule::kAuto, SchemeRule::kPs, SchemeRule::kSfb})
          CHECK(predicted <= predicted_with(request, scheme) * (1 + 1e-9));
      }
}

TEST_CASE("policy \"time\" switches from factors to servers if rebuilding is expensive") {
  PlanRequest request = timed_request();
  CHECK(schemes_of(make_plan(request))[2] == 'S');
  request.rebuild_gflops = 0.001;
  request.link_mbps = 100000;
  CHECK(schemes_of(make_plan(request)) == "PPPP");
  request.layers[3].forced = SchemeRule::kSfb;
  CHECK(schemes_of(make_plan(request)) == "PPPS");
}

TEST_CASE("too many linear layers for an exhaustive search are optimized one by one") {
  PlanRequest request = timed_request();
  request.layers.clear();
  for (int i = 0; i < 14; ++i)
    request.layers.push_back(linear_traffic("fc" + std::to_string(i), 512, 1024));
  request.times.assign(14, {1, 1});
  CHECK(schemes_of(make_plan(request)) == "SSSSSSSSSSSSSS");
  request.rebuild_gflops = 0.001;
  request.link_mbps = 100000;
  CHECK(schemes_of(make_plan(request)) == "PPPPPPPPPPPPPP");
}

TEST_CASE("a predicted step time equals a value computed by hand") {
  PlanRequest request = on_nodes({linear_traffic("fc", 500, 499)}, 2, 10);
  request.link_mbps = 8;
  request.times = {{2, 4}};
  request.time_before = {1, 0};
  request.rebuild_gflops = 0.001;
  request.overlap = Overlap::kNone;
  request.scheme = SchemeRule::kPs;
  // 250,000 floats. A node sends half of them as gradients and half as sums: 1,000,000 bytes in
  // each direction.
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(7 + 1000));
  request.scheme = SchemeRule::kSfb;
  // 10 x 999 floats. Half of the backward pass makes the gradient. It is replaced by a rebuild of 2
  // x 20 x 249,500 operations, at a million per second.
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(1 + 2 + 2 + 9980 + 39.96));
  // The rebuild takes at least as long as a local gradient, because it reads and writes the same
  // amount of memory.
  request.rebuild_gflops = 1000;
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(7 + 39.96));
  request.link_mbps = 0;
  CHECK(make_plan(request).predicted_step_ms == 0);
}

TEST_CASE("the predicted step time is that of the slowest node") {
  // 250,000 floats in 64 chunks. The link moves 1000 bytes per millisecond.
  PlanRequest request = on_nodes({linear_traffic("fc", 500, 499)}, 8);
  request.scheme = SchemeRule::kPs;
  request.link_mbps = 8;
  request.times = {{0, 0}};
  request.servers = 1;
  // One node sends all sums to seven others.
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(7 * 1000));
  request.servers_apart = true;
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(8 * 1000));
  request.servers = 2;
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(8 * 500).epsilon(0.02));
  request.servers = 16;
  // The workers' links are the bottleneck: all gradients are sent, all sums are received.
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(1000));
}

TEST_CASE("CPU time per byte extends the compute time of the node that moves the bytes") {
  PlanRequest request = on_nodes({linear_traffic("fc", 500, 499)}, 2);
  request.scheme = SchemeRule::kPs;
  request.link_mbps = 1e9;
  request.times = {{2, 4}};
  request.processor_ns_per_byte = 1;
  // A node sends 125,000 floats as gradients and 125,000 as sums, and receives the same number.
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(6 + 2));
  request.servers = 1;
  // A node without a worker does no other computation.
  request.servers_apart = true;
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(6 + 2));
  request.processor_ns_per_byte = 0;
  CHECK(make_plan(request).predicted_step_ms == doctest::Approx(6));
}

TEST_CASE("policy \"time\" names a missing input") {
  PlanRequest request = timed_request();
  request.rebuild_gflops = 0;
  CHECK(error_of<ConfigError>([&] { make_plan(request); }).find("\"backward_gflops\"") !=
        std::string::npos);
  request.link_mbps = 0;
  CHECK(error_of<ConfigError>([&] { make_plan(request); }).find("\"comm.link_mbps\"") !=
        std::string::npos);
  request.times.clear();
  CHECK(error_of<ConfigError>([&] { make_plan(request); }).find("--times FILE") !=
        std::string::npos);
}
