// A crash of every node at every single event of small jobs, and a second crash after it.

#include <doctest/doctest.h>

#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/support/nightly.h"

using namespace poseidon::comm;

namespace {

void run_with(SimulatedJobOptions options, std::vector<Fault> faults) {
  options.faults = std::move(faults);
  CAPTURE(description(options));
  CHECK(fault_in_reconfiguration(options, run_job(options)) == "");
}

}  // namespace

TEST_CASE("a node crashes at any event, and the other nodes compute the values of one process" *
          poseidon::test::nightly()) {
  for (const SchemeRule scheme : {SchemeRule::kPs, SchemeRule::kSfb, SchemeRule::kAuto})
    for (const int64_t servers : {1, 2}) {
      const SimulatedJobOptions options = reconfiguration_job(2, servers, 4, scheme);
      const uint64_t events = run_job(options).events;
      for (const NodeId node : nodes_of(options))
        for (uint64_t event = 0; event < events; ++event)
          run_with(options, {{.at_event = event, .a = node}});
    }
}

TEST_CASE("a second node crashes during reconfiguration, and the remaining nodes continue" *
          poseidon::test::nightly()) {
  const SimulatedJobOptions options = reconfiguration_job(3, 2, 5, SchemeRule::kAuto);
  const uint64_t events = run_job(options).events;
  for (const NodeId first : nodes_of(options))
    for (const NodeId second : nodes_of(options))
      for (uint64_t event = events / 3; event < events && first != second; event += 37)
        for (uint64_t later = 0; later < 200; later += 5)
          run_with(options,
                   {{.at_event = event, .a = first}, {.at_event = event + later, .a = second}});
}
