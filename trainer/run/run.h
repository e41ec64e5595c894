#pragma once

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Trains the job to its end, or until it is stopped: steps, tests, checkpoints, metrics. Returns
/// what it wrote to summary.json. Throws ConfigError before the first step, RunError when the run
/// fails; the last checkpoint then stays as it is.
Json train(const Job& job, const RunOptions& options, Console& console);

}  // namespace poseidon::trainer
