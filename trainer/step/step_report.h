#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/schemes.h"
#include "net/net.h"

namespace poseidon::trainer {

/// Sums of loss and scalars over samples.
struct SampleSums {
  double loss = 0;                   ///< weighted sum of all losses
  std::vector<double> scalars = {};  ///< as in Net::read_scalars(); empty before any addition

  SampleSums& operator+=(const SampleSums& other);
  /// The mean over `samples` samples.
  SampleSums mean(int64_t samples) const;
};

/// Sums over the first `samples` samples of the batch that the net computed last.
SampleSums sums_of_batch(const net::Net& net, int64_t samples);

/// Milliseconds of one worker's step. The three values add up to the time of the whole step.
struct StepTimes {
  double compute_ms = 0;    ///< includes updates
  double data_wait_ms = 0;  ///< waiting for batches
  double sum_wait_ms = 0;   ///< waiting for sums that include shards of other devices or workers
  double wait_ms() const { return data_wait_ms + sum_wait_ms; }
  double all_ms() const { return compute_ms + wait_ms(); }
  StepTimes& operator+=(const StepTimes& other);
};

/// Results and times of one step.
struct StepReport {
  int64_t step = 0;                ///< finished steps, including this one
  std::vector<SampleSums> shards;  ///< of this worker's or device's logical shards, in order
  SampleSums mean;                 ///< sum of `shards`, divided by the global batch
  double learning_rate = 0;
  StepTimes times;  ///< in the coordinator's reports: mean over the workers
  /// By index in Parameters::summed_layers(). In reports that a worker sends: by layer of the plan.
  /// In the coordinator's reports: by layer of the plan, mean over the workers.
  std::vector<double> layer_wait_ms;
  // Only in the coordinator's reports:
  std::vector<StepTimes> workers;  ///< by rank
  comm::ByScheme<double> bytes;    ///< sent plus received during the step, mean per node
};

/// Combines the reports of a worker's devices, in the order of their shards. Times and layer waits
/// are those of the slowest device, because the other devices wait for it.
StepReport report_of_devices(std::vector<StepReport> devices, int64_t global_batch);

/// Adds the sums of `shards` in order, and divides by `global_batch`. With the shards of all
/// workers, this is the mean over the global batch. Its bits do not depend on the number of
/// workers.
SampleSums mean_of_shards(std::span<const SampleSums> shards, int64_t global_batch);

}  // namespace poseidon::trainer
