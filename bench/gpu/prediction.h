#pragma once

#include <string>
#include <vector>

#include "bench/gpu/tally.h"
#include "trainer/job/job.h"

namespace poseidon::bench {

/// What a training step of one worker asks of a GPU: forward, backward and updates, counted from
/// what the trainer issues, on a GPU that does nothing.
struct Prediction {
  std::string network, precision;
  int64_t batch = 0;
  Tally tally;
  size_t memory_bytes = 0;

  /// Of everything that is done on the GPU, one after another.
  double compute_seconds() const;
  /// Of the next batch, which comes up beside it.
  double upload_seconds() const;
  double step_seconds() const;
  double samples_per_second() const { return static_cast<double>(batch) / step_seconds(); }
};

/// Throws ConfigError, OutOfMemory.
Prediction predict(const trainer::Job& job, const GpuRates& rates);

/// The parts of a step that are no layer's pass.
inline constexpr const char* kUploadPart = "input upload";
inline constexpr const char* kUpdatePart = "update";
inline constexpr const char* kOtherPart = "between layers";

/// A line for each prediction, part and kernel: tab-separated, with a heading.
std::string lines_of(const std::vector<Prediction>& predictions);
/// A table in Markdown with a line for each prediction.
std::string table_of(const std::vector<Prediction>& predictions);

}  // namespace poseidon::bench
