// A crash of every node at every single event of a step.

#include <doctest/doctest.h>

#include "tests/simulation/seeds/scenario.h"

using namespace poseidon::comm;

namespace {

void crash_at_every_event_of_a_step(int64_t staleness) {
  SimulatedJobOptions options = scenario(4);
  options.plan.staleness = staleness;
  options.faults.clear();
  const uint64_t events = run_job(options).events;
  const uint64_t first = events / 2, last = first + events / static_cast<uint64_t>(options.steps);
  std::vector<NodeId> nodes{{}};
  for (uint16_t rank = 0; rank < options.plan.workers(); ++rank)
    nodes.push_back({Role::kWorker, rank});
  for (uint16_t rank = 0; rank < options.plan.servers(); ++rank)
    nodes.push_back({Role::kServer, rank});
  for (uint64_t event = first; event < last; ++event)
    for (NodeId node : nodes) {
      options.faults = {{.kind = Fault::Kind::kCrash, .at_event = event, .a = node}};
      CAPTURE(description(options));
      CHECK(fault_in(options, run_job(options)) == "");
    }
}

}  // namespace

TEST_CASE("a node crashes at any event of a step, and the last complete step is saved") {
  crash_at_every_event_of_a_step(0);
}

TEST_CASE("a node crashes at any event with sums in flight, and the last complete step is saved") {
  crash_at_every_event_of_a_step(2);
}
