#pragma once

#include <filesystem>
#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"

namespace poseidon::trainer {

/// Classifies image files with the weights that `options` names, transformed like the job's test
/// set. Returns {"name", "weights", "images": [{"file", "scores": [{"class", "probability"}]}]},
/// with the five most probable classes of each image. An image that cannot be read has "error"
/// instead of "scores".
Json classify(const Job& job, const RunOptions& options,
              const std::vector<std::filesystem::path>& images, Log& log);

}  // namespace poseidon::trainer
