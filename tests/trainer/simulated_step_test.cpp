// The simulated time of a step with the real protocol, compared with the predicted one.

#include "trainer/plan/simulated_step.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// Eight layers of 4 MB, the last one fully connected. Computation takes 80 ms.
comm::PlanRequest request_for(int64_t nodes) {
  comm::PlanRequest request;
  request.workers = request.servers = nodes;
  request.global_batch = 8 * nodes;
  for (int i = 0; i < 8; ++i)
    request.layers.push_back({.name = "layer" + std::to_string(i),
                              .type = "convolution",
                              .rows = 1000,
                              .columns = 1000,
                              .tensors = {{.name = "weight", .elements = 1'000'000}}});
  request.layers.back().type = "linear";
  request.layers.back().linear = true;
  request.layers.back().factors = {.deltas = 1000, .activations = 1000, .multiply_adds = 1'000'000};
  request.times.assign(8, {.forward_ms = 3, .backward_ms = 7});
  request.rebuild_gflops = 100;
  return request;
}

}  // namespace

TEST_CASE("a simulated step takes the predicted time") {
  for (const int64_t nodes : {2, 4, 8})
    for (const double mbps : {1000.0, 4000.0, 40000.0})
      for (const comm::SchemeRule scheme : {comm::SchemeRule::kPs, comm::SchemeRule::kAuto}) {
        CAPTURE(nodes);
        CAPTURE(mbps);
        comm::PlanRequest request = request_for(nodes);
        request.link_mbps = mbps;
        request.scheme = scheme;
        const comm::Plan plan = comm::make_plan(request);
        const double simulated = simulated_step_ms(plan, request);
        CHECK(simulated > 0.95 * plan.predicted_step_ms);
        // The last tensor travels to the server and back in sequence. The formula does not include
        // that.
        CHECK(simulated < 1.1 * plan.predicted_step_ms);
      }
}

TEST_CASE("a simulated step overlaps computation and communication as planned") {
  for (const double mbps : {1000.0, 8000.0})
    for (const comm::Overlap overlap :
         {comm::Overlap::kPriority, comm::Overlap::kBarrier, comm::Overlap::kNone}) {
      CAPTURE(mbps);
      CAPTURE(comm::name_of(overlap));
      comm::PlanRequest request = request_for(4);
      request.link_mbps = mbps;
      request.overlap = overlap;
      const comm::Plan plan = comm::make_plan(request);
      CHECK(simulated_step_ms(plan, request) ==
            doctest::Approx(plan.predicted_step_ms).epsilon(0.08));
    }
}

TEST_CASE("with late sums a simulated step takes the longer of computation and communication") {
  for (const int64_t staleness : {1, 8})
    for (const double mbps : {100.0, 100'000.0}) {
      CAPTURE(staleness);
      CAPTURE(mbps);
      comm::PlanRequest request = request_for(4);
      request.link_mbps = mbps;
      request.staleness = staleness;
      const comm::Plan plan = comm::make_plan(request);
      const double link_ms = plan.bytes_per_node / 2 / (mbps * 125);
      CHECK(simulated_step_ms(plan, request) ==
            doctest::Approx(std::max(80.0, link_ms)).epsilon(0.05));
    }
}

TEST_CASE("the CPU time per byte prolongs a simulated step") {
  comm::PlanRequest request = request_for(2);
  request.link_mbps = 40000;
  request.processor_ns_per_byte = 1;
  const comm::Plan plan = comm::make_plan(request);
  const double simulated = simulated_step_ms(plan, request);
  CHECK(simulated > 80 + 0.9e-6 * plan.bytes_per_node);
  CHECK(simulated == doctest::Approx(plan.predicted_step_ms).epsilon(0.08));
}

TEST_CASE("--simulate without its requirements is refused, and the message names them") {
  comm::PlanRequest request = request_for(2);
  const auto refused = [&] {
    return error_of<ConfigError>([&] { simulated_step_ms(comm::make_plan(request), request); });
  };
  CHECK(refused() == "--simulate: expected \"comm.link_mbps\" above 0, got 0");
  request.times.clear();
  CHECK(refused() == "--simulate: expected --times FILE, the output of --time --json");
  request.workers = 1;
  CHECK(refused() == "--simulate: expected several workers, got 1, which sends nothing");
}
