// Jobs in which nodes cannot reach each other from the start, on the simulated network. Such a job
// ends before its first step, with a remedy in its message. A joiner that cannot reach a member is
// left out.

#include <doctest/doctest.h>

#include "comm/wire/reachability.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/simulation/seeds/setup.h"
#include "tests/support/sanitizers.h"

using namespace poseidon::comm;
using poseidon::test::kStride;

namespace {

constexpr NodeId worker(uint16_t rank) { return {Role::kWorker, rank}; }
constexpr NodeId server(uint16_t rank) { return {Role::kServer, rank}; }

SimulatedJobResult run_with(Fault::Kind kind, NodeId a, NodeId b, SchemeRule scheme) {
  SimulatedJobOptions options = reconfiguration_job(3, 2, 5, scheme);
  options.faults = {{.kind = kind, .a = a, .b = b}};
  const SimulatedJobResult result = run_job(options);
  CAPTURE(description(options));
  CHECK(fault_in_setup(options, result) == "");
  REQUIRE(result.outcome.has_value());
  return result;
}

bool has(const std::string& text, const std::string& words) {
  CAPTURE(text);
  const bool found = text.find(words) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE(
    "members that cannot reach each other end the job before its first step, with a message") {
  const SimulatedJobResult servers =
      run_with(Fault::Kind::kBlocked, server(1), worker(2), SchemeRule::kPs);
  CHECK(servers.outcome->failure.kind == NodeFailure::Kind::kUnreached);
  has(servers.outcome->failure.message(),
      "worker 2 (w2) cannot reach server 1 at s1: no answer within 5 s; ");
  const SimulatedJobResult workers =
      run_with(Fault::Kind::kBlocked, worker(0), worker(1), SchemeRule::kSfb);
  has(workers.outcome->failure.message(), "worker 1 (w1) cannot reach worker 0 at w0: ");
  // Under the PS scheme workers have no connection to each other.
  CHECK(run_with(Fault::Kind::kBlocked, worker(0), worker(1), SchemeRule::kPs).outcome->finished);
}

TEST_CASE("members that cannot exchange large messages end the job before its first step") {
  for (const auto& [a, b] : {std::pair(worker(1), server(0)), {worker(2), worker(0)}}) {
    const SimulatedJobResult result = run_with(Fault::Kind::kSmallMtu, a, b, SchemeRule::kSfb);
    CHECK(result.outcome->failure.kind == NodeFailure::Kind::kUnreached);
    has(result.outcome->failure.message(), kOnlySmallMessages);
  }
}

TEST_CASE("a job starts over links of 0.1 Mbit/s") {
  SimulatedJobOptions options = reconfiguration_job(2, 1, 2, SchemeRule::kPs);
  options.network.bytes_per_second = 12'500;
  options.timeout = std::chrono::seconds(10);
  const SimulatedJobResult result = run_job(options);
  REQUIRE(result.outcome.has_value());
  CHECK(result.outcome->finished);
}

TEST_CASE("many seeds: a job with blocked connections ends, or removes the joiner") {
  for (uint64_t seed = 1; seed <= 60 / kStride; ++seed) {
    const SimulatedJobOptions options = setup_scenario(seed);
    CAPTURE(description(options));
    CHECK(fault_in_setup(options, run_job(options)) == "");
  }
}
