#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/schemes.h"
#include "net/net.h"

namespace poseidon::trainer {

/// What samples gave, summed over them.
struct SampleSums {
  double loss = 0;                   ///< weighted over all losses
  std::vector<double> scalars = {};  ///< each of Net::read_scalars(); none where nothing was added

  SampleSums& operator+=(const SampleSums& other);
  /// Of so many samples.
  SampleSums mean(int64_t samples) const;
};

/// Of the first `samples` of the batch that the net computed last.
SampleSums sums_of_batch(const net::Net& net, int64_t samples);

/// Milliseconds of one worker's step. Together they are all of it.
struct StepTimes {
  double compute_ms = 0;    ///< updates included
  double data_wait_ms = 0;  ///< for batches
  double sum_wait_ms = 0;   ///< for sums over the shards of other workers
  double wait_ms() const { return data_wait_ms + sum_wait_ms; }
  double all_ms() const { return compute_ms + wait_ms(); }
  StepTimes& operator+=(const StepTimes& other);
};

/// What one step gave and took.
struct StepReport {
  int64_t step = 0;                ///< steps done, this one included
  std::vector<SampleSums> shards;  ///< of this worker's logical shards, in order
  SampleSums mean;                 ///< of `shards`, a share of the mean over the global batch
  double learning_rate = 0;
  StepTimes times;                    ///< of several workers: their mean
  std::vector<double> layer_wait_ms;  ///< of sum_wait_ms, by place in Parameters::summed_layers()
  // Of several workers:
  std::vector<StepTimes> workers;  ///< by rank
  comm::ByScheme<double> bytes;    ///< moved during the step, per node, sent plus received
};

/// That of a worker from those of its devices, in the order of their shards. Times are those of the
/// device that took longest, for which the others have waited.
StepReport report_of_devices(std::vector<StepReport> devices, int64_t global_batch);

/// The mean of a step from the sums of shards in order. With those of all workers it is that over
/// the global batch, to the same bits for any number of workers.
SampleSums mean_of_shards(std::span<const SampleSums> shards, int64_t global_batch);

}  // namespace poseidon::trainer
