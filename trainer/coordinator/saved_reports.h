#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/report/metrics.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

/// Reports of steps and tests that a worker has sent to an earlier, failed coordinator, which may
/// not have recorded them.
struct SavedReports {
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  int64_t rank = 0;                   ///< of the worker at that time
  Json plan;                          ///< the worker's plan at that time, as in plan.json
  std::vector<std::string> messages;  ///< notes "step" and "test", oldest first
  size_t bytes = 0;                   ///< of all messages

  /// Throws ConfigError if the total exceeds kMaxBytes.
  void add(std::string message);
};

/// Writes the lines that are missing in the run directory's metrics.jsonl from these reports, up to
/// step `options.steps_done`, from which the run continues. A step gets a line if the reports of
/// all its workers exist. Unusable reports cause a warning.
void write_saved_reports(const std::vector<SavedReports>& kept, const Job& job,
                         Metrics::Options options, const RunDirectory& directory, Console& console);

}  // namespace poseidon::trainer
