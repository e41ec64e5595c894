#pragma once

#include <doctest/doctest.h>

#include "comm/simulation/model.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"

namespace poseidon::comm {

/// Checks a job of 100 steps in which worker 0 crashes at `event`. A user stops the job while the
/// other nodes reconfigure. The job must stop in the next view.
inline void halts_in_the_next_view(SimulatedJobOptions options, uint64_t event) {
  options.steps = 100;
  for (uint64_t later = 0; later < 60; later += 15) {
    options.faults = {{.at_event = event, .a = {Role::kWorker, 0}},
                      {.kind = Fault::Kind::kHalt, .at_event = event + later}};
    const SimulatedJobResult result = run_job(options);
    CAPTURE(description(options));
    REQUIRE(result.outcome.has_value());
    CHECK(result.outcome->finished);
    CHECK(result.reconfigurations.size() == 1);
    CHECK(result.steps.at(1) == result.steps.at(2));
    CHECK(result.steps.at(1) < 100);
    CHECK(result.digests.at(1) == reference_digest(options.plan, options.seed, result.steps.at(1)));
  }
}

}  // namespace poseidon::comm
