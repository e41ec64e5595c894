#pragma once

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// --test: tests on data.test with the weights of a checkpoint (`options.resume`) or of a file
/// (`options.weights`). Returns the loss, the layers' scalars, the accuracy of each class, and the
/// confusions between classes.
Json test(const Job& job, const RunOptions& options, Console& console);

}  // namespace poseidon::trainer
