#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/shard_tree.h"
#include "trainer/step/stacked_factors.h"

namespace poseidon::trainer {

/// How what the logical shards give to a step becomes its sums: those of gradients, and those of
/// contributions to running statistics. All calls come from the compute thread. Of each shard, the
/// calls come in the order of the passes; shards come in order too, counted from 0 among this
/// worker's own.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// The backward pass of shard `shard` begins. Where layers give factors, the exchange now says
  /// where to (Net::set_factor_memory).
  virtual void begin_backward(int64_t shard) = 0;
  /// The net's memory holds the shard's contributions to the statistics of all layers. They may be
  /// overwritten by the next forward. Comes before contribute().
  virtual void contribute_statistics(int64_t shard) = 0;
  /// The net's memory holds the gradients of the layer for shard `shard`, or the memory that the
  /// exchange named its factors. They may be overwritten by the layer's next backward.
  virtual void contribute(int layer, int64_t shard) = 0;
  /// Work of the device from now on is done behind what the exchange has issued of the layer: it
  /// may read the sums that are there, and overwrite what was contributed.
  virtual void release(int layer) = 0;
  /// A layer of which all sums over all shards of its next step are there. Each of
  /// Parameters::summed_layers() arrives once a step, in order of its steps. None when no further
  /// one is there yet.
  virtual std::optional<int> arrived() = 0;
  /// Blocks until arrived() has one to give. Only while one is under way.
  virtual void wait() = 0;
  /// The sums of a layer that are there, of `step`, counted from 0: those of gradients to `sink`,
  /// in pieces, or without one into the net's memory, in place of the gradients; those of
  /// contributions into the net's memory. Until the layer contributes to step + 1 + staleness.
  virtual void give(int layer, int64_t step, const layers::GradientSink* sink) = 0;
  /// Which of the memories that a layer's sums take by turns those of `step` are in: where it is
  /// the same, give() issues the same work on the same memory.
  virtual int64_t slot(int layer, int64_t step) const = 0;
};

/// How late sums may be.
struct Lateness {
  int64_t staleness = 0;
  int64_t first_step = 0;  ///< the first that is contributed to
};

/// One worker alone: its own shards are all there are, summed by the fixed tree. Layers that give
/// factors are rebuilt from those of all shards at once.
class LocalExchange final : public GradientExchange {
 public:
  LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards, Lateness lateness = {});
  /// What it takes of memory, bytes. The net need not have taken any.
  static size_t bytes(net::Net& net, int64_t shards, int64_t staleness);

  void begin_backward(int64_t shard) override;
  void contribute_statistics(int64_t shard) override;
  void contribute(int layer, int64_t shard) override;
  void release(int layer) override { net_.device().await(made_[layer]); }
  std::optional<int> arrived() override;
  void wait() override;
  void give(int layer, int64_t step, const layers::GradientSink* sink) override;
  int64_t slot(int, int64_t step) const override {
    return kept_.empty() ? 0 : step % std::ssize(kept_);
  }

 private:
  /// The sums of one step, as they are in the net's memory: one for each parameter, each statistic.
  struct KeptSums {
    std::vector<Buffer> gradients, statistics;
  };

  void sum_gradients(int layer, int64_t shard);
  void has_arrived(int layer);
  void keep_gradients(int layer);
  void keep_statistics();
  void load_kept(int layer, int64_t step);
  KeptSums& kept(int64_t step) { return kept_[static_cast<size_t>(step) % kept_.size()]; }

  net::Net& net_;
  int64_t shards_;
  std::vector<ShardTree> gradients_, statistics_;  ///< one for each parameter, each statistic
  std::map<int, StackedFactors> factors_;          ///< by layer
  std::map<int, Event> made_;                      ///< by layer: its newest sums
  std::deque<int> arrived_;
  int64_t step_;                ///< the newest that was contributed to
  std::vector<KeptSums> kept_;  ///< with staleness: of the steps in flight
};

}  // namespace poseidon::trainer
