#pragma once

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Times the choices that the job's layers have (algorithm for each pass, layout of the
/// activations) and takes what is faster than the fixed rule by more than the noise. Returns
/// {"choices": {layer: choice}, "rule_ms", "tuned_ms"}: a file that device.choices can name. Timing
/// decides here and nowhere else.
Json tune(const Job& job, Log& log);

}  // namespace poseidon::trainer
