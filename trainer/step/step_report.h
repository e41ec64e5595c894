#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/schemes.h"
#include "net/net.h"

namespace poseidon::trainer {

/// What one logical shard gave in a step, summed over its samples.
struct ShardReport {
  double loss = 0;   ///< weighted over all losses
  int64_t hits = 0;  ///< samples whose label had the best score
};

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
  int64_t step = 0;                 ///< steps done, this one included
  std::vector<ShardReport> shards;  ///< of this worker, in order
  double loss = 0;                  ///< of `shards`, a share of the mean over the global batch
  double top1 = 0;                  ///< the same of hits: a part of 1
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

/// The index of the loss that accuracy is taken from: the one that weighs most, the last of equals.
size_t main_loss(const std::vector<net::Net::Loss>& losses);

/// What a shard gave, from what its forward pass left in the loss layers.
ShardReport report_of(const std::vector<net::Net::Loss>& losses);

/// Sets the loss and top1 of a step from the reports of shards in order. With those of all workers
/// they are the means over the global batch, to the same bits for any number of workers.
void set_means(std::span<const ShardReport> shards, int64_t global_batch, StepReport& report);

}  // namespace poseidon::trainer
