#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/loader.h"
#include "net/net.h"
#include "trainer/exchange.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/shard_tree.h"

namespace poseidon::trainer {

/// What one step gave and took.
struct StepReport {
  int64_t step = 0;  ///< steps done, this one included
  double loss = 0;   ///< weighted over all losses, mean of the global batch
  double top1 = 0;   ///< part of the samples whose label had the best score
  double learning_rate = 0;
  double wait_ms = 0;     ///< for batches and for sums
  double compute_ms = 0;  ///< all the rest
};

/// The index of the loss that accuracy is taken from: the one that weighs most, the last of equals.
size_t main_loss(const std::vector<net::Net::Loss>& losses);

/// Running statistics of the net (batch norm): after each step, value += momentum * (mean of the
/// shards' contributions - value).
class StatisticsUpdate {
 public:
  StatisticsUpdate(net::Net& net, layers::Updater& updater, int64_t shards);
  /// After the forward pass of shard `shard`.
  void add(int64_t shard);
  /// After the last backward pass.
  void apply();

 private:
  net::Net& net_;
  int64_t shards_;
  std::vector<ShardTree> trees_;
};

/// The wait-free loop: each layer's gradient goes to the exchange as soon as backward has made it,
/// each layer's parameters are updated as soon as its sum is there, and the next forward waits for
/// one layer at a time. Used by the compute thread.
class TrainingLoop {
 public:
  struct Options {
    uint64_t seed = 1;
    int64_t global_batch = 1;
    int64_t shards = 1;      ///< of this worker
    int64_t steps_done = 0;  ///< by the run that is resumed
  };

  /// All of them must outlive the loop. The loader gives this worker's shards.
  TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
               StatisticsUpdate& statistics, const Schedule& schedule, data::Loader& loader,
               const Options& options);

  /// One optimizer step. Throws RunError when the loss is not finite; parameters are then those of
  /// the step before.
  StepReport step();

  /// Waits for all sums and updates that are under way: before parameters are read from outside.
  void settle();

  int64_t steps_done() const { return steps_done_; }

 private:
  void run_shard(int64_t shard, StepReport& report);
  void forward_and_measure(const layers::StepContext& context, StepReport& report);
  void open_gate(int layer);
  void await_one();
  void update_arrived();
  void arrived(int layer);
  /// With clipping: the common norm needs all sums before the first update.
  void update_clipped();
  void update_layer(int layer);

  net::Net& net_;
  Optimizer& optimizer_;
  GradientExchange& exchange_;
  StatisticsUpdate& statistics_;
  const Schedule& schedule_;
  data::Loader& loader_;
  Options options_;
  int64_t steps_done_;
  UpdateStep update_;
  std::vector<bool> under_way_;  ///< by layer: contributed, not updated yet
  std::vector<int> unclipped_;   ///< with clipping: layers whose sums are there
  int layers_under_way_ = 0;
  double waited_ms_ = 0;
};

}  // namespace poseidon::trainer
