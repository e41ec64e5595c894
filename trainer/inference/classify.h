#pragma once

#include <filesystem>
#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"

namespace poseidon::trainer {

/// The five likeliest classes of each image file, prepared as the job's test set is, by the weights
/// of `options`: {"weights", "images": [{"file", "scores": [{"class", "probability"}]}]}. An image
/// that cannot be read has "error" in place of "scores".
Json classify(const Job& job, const RunOptions& options,
              const std::vector<std::filesystem::path>& images, Log& log);

}  // namespace poseidon::trainer
