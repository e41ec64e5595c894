#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Writes the outputs of the named layers for each sample of data.test to one safetensors file
/// (FeatureFile), in the order of the data. Uses the weights of `options.resume` or
/// `options.weights`. Returns {"name", "step", "weights", "file", "samples", "layers": [{"name",
/// "shape"}]}.
Json extract(const Job& job, const RunOptions& options, const std::vector<std::string>& layers,
             const std::filesystem::path& file, Console& console);

}  // namespace poseidon::trainer
