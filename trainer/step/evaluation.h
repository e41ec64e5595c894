#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/buffer_cache.h"
#include "core/even_parts.h"
#include "core/log.h"
#include "data/loader.h"
#include "net/net.h"
#include "trainer/job/job.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// Result of a test over `samples` samples.
struct TestResult {
  int64_t samples = 0;
  SampleSums mean = {};
  double seconds = 0;
};

/// Sums of a test, one for each logical shard. mean() adds the sums in order. So its bits do not
/// depend on the number of workers, if `parts` has all shards.
struct TestSums {
  int64_t samples = 0;
  /// By logical shard. evaluate_part() returns only those of the worker's own shards.
  std::vector<SampleSums> parts;
  double seconds = 0;  ///< with several workers: the maximum

  TestResult mean() const;
};

struct TestOptions {
  uint64_t seed = 1;
  int loader_threads = 1;
  data::OnError on_error = data::OnError::kStop;
  /// Called before each batch with the numbers of this worker's finished batches and of all its
  /// batches. False stops the test. May be null.
  std::function<bool(int64_t done, int64_t of)> goes_on = nullptr;
  /// Called after each batch that has samples, while the net still holds its outputs. May be null.
  std::function<void(const data::Batch&)> tested = nullptr;
  /// A round is `parts` batches, one for each logical shard. In every round this worker tests the
  /// batches `own_parts`.
  int64_t parts = 1;
  IndexRange own_parts{.first = 0, .count = 1};
};

/// Tests the net with the batches `options.own_parts` of every round, each sample once, with the
/// running statistics from training. `memory`: memory of the batches, from batch_cache(net).
/// Returns nullopt if the test was stopped.
std::optional<TestSums> evaluate_part(net::Net& net, const PreparedData& data,
                                      const TestOptions& options, BufferCache& memory, Log& log);

/// Runs the whole dataset through the net like evaluate_part(), and returns the mean.
/// `options.own_parts` must be all parts.
std::optional<TestResult> evaluate(net::Net& net, const PreparedData& data,
                                   const TestOptions& options, Log& log);

}  // namespace poseidon::trainer
