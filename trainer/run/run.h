#pragma once

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Trains the job to its end, or until it is stopped, with tests, checkpoints and metrics. Returns
/// the content of summary.json. Throws ConfigError, only before the first step, for an error in the
/// job or its options. Throws RunError if the run fails; the last complete step is then saved as a
/// checkpoint, if possible.
Json train(const Job& job, const RunOptions& options, Console& console);

}  // namespace poseidon::trainer
