#pragma once

#include <cstddef>
#include <optional>

#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Descriptions of the job's data. A dataset is absent if its files do not exist, or if the job has
/// no test set.
struct KnownData {
  std::optional<data::DatasetDescription> train = {}, test = {};
  size_t bytes = 0;  ///< bytes that both datasets keep in memory
};

KnownData known_data(const PreparedData& train, const PreparedData& test);

/// Opens the job's datasets whose files exist, as a run does. Opens none if the mean image of the
/// training set is missing. load_job() has already warned of missing files. Throws ConfigError,
/// RunError.
KnownData inspect_data(const Job& job, Log& log);

}  // namespace poseidon::trainer
