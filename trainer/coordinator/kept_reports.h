#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/report/metrics.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

/// What a worker has reported of its steps and tests to a coordinator that is gone, and which may
/// not have recorded it.
struct KeptReports {
  static constexpr size_t kMostBytes = size_t{32} << 20;

  int64_t rank = 0;                   ///< of the worker then
  Json plan;                          ///< by which it computed, as in plan.json
  std::vector<std::string> messages;  ///< notes "step" and "test", oldest first
  size_t bytes = 0;                   ///< of them

  /// Throws ConfigError where they are more than a worker keeps.
  void add(std::string message);
};

/// Writes the lines of metrics of these reports that the run directory lacks, up to step
/// `options.steps_done`, with which the run goes on. A step has a line if all of its workers have
/// kept their reports. What cannot be used is a warning.
void write_kept_reports(const std::vector<KeptReports>& kept, const Job& job,
                        Metrics::Options options, const RunDirectory& directory, Console& console);

}  // namespace poseidon::trainer
