#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/even_parts.h"
#include "core/log.h"
#include "data/loader.h"
#include "net/net.h"
#include "trainer/job/job.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// Of samples that were tested.
struct TestResult {
  int64_t samples = 0;
  SampleSums mean = {};
  double seconds = 0;
};

/// The sums of each part. The mean adds them in order, so its bits do not depend on the number of
/// workers.
struct TestSums {
  int64_t samples = 0;
  std::vector<SampleSums> parts;  ///< by index
  double seconds = 0;             ///< of several workers, which test at once: the longest

  TestResult mean() const;
};

struct TestOptions {
  uint64_t seed = 1;
  int loader_threads = 1;
  data::OnError on_error = data::OnError::kStop;
  /// Asked before each batch, with how many are done of how many; may be null.
  std::function<bool(int64_t done, int64_t of)> goes_on = nullptr;
  /// Called after each batch, while the net holds what it computed; may be null.
  std::function<void(const data::Batch&)> tested = nullptr;
  /// Of several workers, each tests its parts of every round of so many batches.
  int64_t parts = 1;
  IndexRange own_parts{.first = 0, .count = 1};
};

/// Runs this worker's part of the dataset through the net, every sample once, with the statistics
/// gathered in training. None when it was stopped.
std::optional<TestSums> evaluate_part(net::Net& net, const PreparedData& data,
                                      const TestOptions& options, Log& log);

/// The same for the whole dataset.
std::optional<TestResult> evaluate(net::Net& net, const PreparedData& data,
                                   const TestOptions& options, Log& log);

}  // namespace poseidon::trainer
