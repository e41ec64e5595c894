#pragma once

#include <string>
#include <vector>

#include "bench/gpu/cost_counter.h"
#include "trainer/job/job.h"

namespace poseidon::bench {

/// The cost of one worker's training step on a GPU: upload, forward, backward and updates. With
/// several workers, the cost includes copies of contributions, sums and factors, but no waits for
/// other workers. The trainer issues the operations of the step to a driver that counts them and
/// executes nothing (CostModelDriver).
struct Prediction {
  std::string network, precision;
  int64_t batch = 0;  ///< of the worker
  int64_t workers = 1;
  CostCounter cost_counter;
  size_t memory_bytes = 0;  ///< device memory that the worker allocates

  /// The time of all work except the upload of the next batch, executed sequentially.
  double compute_seconds() const;
  /// The time to upload the next batch, which overlaps with the computation.
  double upload_seconds() const;
};

/// Predicts one training step of a job. Throws ConfigError and OutOfMemory.
Prediction predict(const trainer::Job& job, const GpuRates& rates);

/// The names of the parts of a step that are not passes of layers.
inline constexpr const char* kUploadPart = "input upload";
inline constexpr const char* kUpdatePart = "update";
inline constexpr const char* kOtherPart = "between layers";

/// Tab-separated lines with a heading: one for each prediction and part, and one for each
/// prediction and kernel.
std::string lines_of(const std::vector<Prediction>& predictions);
/// Tab-separated lines with a heading: the use of host memory in each prediction.
std::string host_lines_of(const std::vector<Prediction>& predictions);
/// A Markdown table with one row for each prediction.
std::string table_of(const std::vector<Prediction>& predictions);

}  // namespace poseidon::bench
