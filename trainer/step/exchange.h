#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/shard_tree.h"
#include "trainer/step/stacked_factors.h"

namespace poseidon::trainer {

/// A layer whose gradients or factors for a shard are final after the event `made`.
struct FinalGradient {
  int layer = 0;
  Event made;
};

/// Computes the sums of a step from the contributions of the logical shards: the sums of gradients,
/// and the sums of contributions to running statistics. The compute thread makes all calls. The
/// calls of a shard follow the order of the passes. Shards come in order, counted from 0 among the
/// device's own shards.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// True if no contribution leaves the device. A sum then arrives as soon as its last contribution
  /// is made.
  virtual bool is_local() const { return false; }
  /// Call it before the backward pass of shard `shard`. For layers that produce factors, it sets
  /// the memory that receives the factors (Net::set_factor_memory).
  virtual void begin_backward(int64_t shard) = 0;
  /// Contributes the shard's values to the statistics of all layers, from the net's memory. The
  /// next forward pass may overwrite this memory. Called before contribute().
  virtual void contribute_statistics(int64_t shard) = 0;
  /// Contributes the layers' gradients for shard `shard`, from the net's memory. For an SFB layer,
  /// contributes its factors, from the factor memory. The layer's next backward pass may overwrite
  /// both.
  virtual void contribute(std::span<const FinalGradient> gradients, int64_t shard) = 0;
  /// Orders the device's later work after the exchange's work on this layer. The later work may
  /// then read the arrived sums and overwrite the contributed memory.
  virtual void release(int layer) = 0;
  /// Returns a layer if all sums of its next step have arrived; nullopt if there is no such layer,
  /// or if the job has failed. Each of Parameters::summed_layers() arrives once for each step, in
  /// the order of the steps.
  virtual std::optional<int> arrived() = 0;
  /// Blocks until arrived() can return a layer. Call it only while a sum is in flight. Throws
  /// JobFailed.
  virtual void wait() = 0;
  /// Delivers the arrived sums of a layer for `step`, counted from 0. Gradient sums go to `sink` in
  /// pieces. If `sink` is null, they go into the net's gradient memory. Sums of contributions to
  /// statistics go into the net's memory. The sums are valid until the layer contributes to step +
  /// 1 + staleness.
  virtual void deliver(int layer, int64_t step, const layers::GradientSink* sink) = 0;
  /// Index of the buffer that holds the layer's sums of `step`. For two steps with equal slots,
  /// deliver() issues the same work on the same memory.
  virtual int64_t slot(int layer, int64_t step) const = 0;
};

/// Staleness of the sums, and the step at which they begin.
struct StalenessOptions {
  int64_t staleness = 0;
  int64_t first_step = 0;  ///< the first step that has contributions
};

/// The sums of a single worker with one device. This device computes all shards, and sums them by
/// the fixed tree. It rebuilds the gradient of a layer with factors from the factors of all shards
/// at once.
class LocalExchange final : public GradientExchange {
 public:
  LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards,
                StalenessOptions staleness_options = {});
  /// Bytes of memory of the exchange. The net need not have allocated its memory.
  static size_t bytes(net::Net& net, int64_t shards, int64_t staleness);

  bool is_local() const override { return true; }
  void begin_backward(int64_t shard) override;
  void contribute_statistics(int64_t shard) override;
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override;
  void release(int layer) override { net_.device().await(made_[layer]); }
  std::optional<int> arrived() override;
  void wait() override;
  void deliver(int layer, int64_t step, const layers::GradientSink* sink) override;
  int64_t slot(int, int64_t step) const override {
    return buffered_sums_.empty() ? 0 : step % std::ssize(buffered_sums_);
  }

 private:
  /// The sums of one step, in the net's order in memory: one for each parameter and each statistic.
  struct BufferedSums {
    std::vector<Buffer> gradients, statistics;
  };

  void sum_over_shards(const char* what, int64_t shard, std::span<const int> layers,
                       const std::function<void()>& work);
  void sum_gradients(int layer, int64_t shard);
  void has_arrived(int layer);
  void buffer_gradients(int layer);
  void buffer_statistics();
  void load_buffered_sums(int layer, int64_t step);
  BufferedSums& buffered_sums(int64_t step) {
    return buffered_sums_[static_cast<size_t>(step) % buffered_sums_.size()];
  }

  net::Net& net_;
  int64_t shards_;
  const std::unique_ptr<GraphCapture> graph_capture_;
  std::vector<ShardTree> gradients_, statistics_;  ///< one for each parameter or statistic
  std::map<int, StackedFactors> factors_;          ///< by layer
  std::map<int, Event> made_;                      ///< by layer: event after its newest sums
  std::deque<int> arrived_;
  int64_t step_;                             ///< the newest step that has contributions
  std::vector<BufferedSums> buffered_sums_;  ///< with staleness: sums of the steps in flight
};

}  // namespace poseidon::trainer
