#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "trainer/job/job.h"
#include "trainer/report/metrics.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

/// Reports of steps and tests from one worker. The worker sent them to an earlier coordinator,
/// which failed and may not have recorded them.
struct SavedReports {
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  int64_t rank = 0;                   ///< rank of the worker in `plan`
  Json plan;                          ///< the plan of the reported steps, as in plan.json
  std::vector<std::string> messages;  ///< encoded notes "step" and "test", oldest first
  size_t bytes = 0;                   ///< size of all messages

  /// Adds a message. Throws ConfigError if the total size exceeds kMaxBytes.
  void add(std::string message);
};

/// Appends the missing lines of metrics.jsonl, from these reports. The run continues after step
/// `options.steps_done`, so later steps are skipped. A step or test gets a line only if the reports
/// of all its workers exist. Unusable reports cause a warning.
void write_saved_reports(const std::vector<SavedReports>& kept, const Job& job,
                         Metrics::Options options, const RunDirectory& directory, Console& console);

}  // namespace poseidon::trainer
