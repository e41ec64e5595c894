#pragma once

#include <cstddef>
#include <optional>

#include "trainer/job/job.h"

namespace poseidon::trainer {

/// What is known of the job's data; a part is absent where there is no test set, or its files are
/// not there.
struct KnownData {
  std::optional<data::DatasetDescription> train = {}, test = {};
  size_t bytes = 0;  ///< that both hold in memory
};

KnownData known_data(const PreparedData& train, const PreparedData& test);

/// Opens all of the job's datasets whose files are there, as a run does; of the others load_job has
/// warned. Throws ConfigError, RunError.
KnownData look_at_data(const Job& job, Log& log);

}  // namespace poseidon::trainer
