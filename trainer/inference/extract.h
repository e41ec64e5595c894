#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Writes what the layers named compute of each sample of data.test, in the order of the data and
/// prepared as for a test, to one safetensors file (FeatureFile). The weights are those of a test,
/// by `options`. Returns {"name", "step", "weights", "file", "samples", "layers": [{"name",
/// "shape"}]}.
Json extract(const Job& job, const RunOptions& options, const std::vector<std::string>& layers,
             const std::filesystem::path& file, Console& console);

}  // namespace poseidon::trainer
