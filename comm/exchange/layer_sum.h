#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/exchange_context.h"
#include "comm/exchange/integer_sum.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// One worker's contribution to a layer's sum.
struct Contribution {
  uint64_t step = 0;
  uint32_t tensor = 0;  ///< its index in the layer; unused for factors
  /// One of the worker's parts. For factors, and for tensors whose shards are rounded: one of its
  /// logical shards.
  Part part = {};
  /// The sum over the part, which must stay valid until the layer's sums have arrived. Empty for
  /// factors, which lie in ExchangeMemory.
  std::span<const float> values = {};
  /// Replaces `values` if the shard's gradient is rounded to integers (rounds_shards()).
  IntegerBlocks rounded = {};
};

/// Turns one layer's contributions into its sums, on one worker. LayerSums
/// (comm/exchange/layer_sums.h) makes one for each layer of the plan, by the layer's scheme.
class LayerSum {
 public:
  LayerSum(ExchangeContext& context, uint32_t layer, size_t window, uint64_t due_each_step)
      : context_(context),
        layer_(layer),
        step_(context.options.first_step),
        due_each_step_(due_each_step),
        due_(window, due_each_step) {}
  virtual ~LayerSum() = default;
  LayerSum(const LayerSum&) = delete;
  LayerSum& operator=(const LayerSum&) = delete;

  /// Accepts a contribution of this worker, and sends it to the nodes that need it.
  virtual void contribute(const Contribution& contribution) = 0;
  /// destination() returns the destination for the body of a frame of this layer. received()
  /// reports that the body has arrived, and returns the reason to reject the body, or "".
  virtual Destination destination(NodeId from, const FrameHeader& header) = 0;
  virtual std::string received(NodeId from, const FrameHeader& header) = 0;
  /// Names the item that the layer awaits from `node`, for messages: "the sum of \"conv1\" of step
  /// 12 from server 0". Returns "" if the layer awaits nothing from `node`.
  virtual std::string awaiting(NodeId node) const = 0;

  /// The number of steps whose sums have arrived.
  uint64_t step() const { return step_; }

 protected:
  ExchangeContext& context() const { return context_; }
  uint32_t layer() const { return layer_; }
  const LayerPlan& plan() const { return context_.plan.layers[layer_]; }
  /// Subtracts `count` from the items (such as pieces or slices) that `step` still needs. Steps end
  /// in order: a complete step waits until all earlier steps are complete.
  void done(uint64_t step, uint64_t count = 1);
  /// Rejects a frame that does not belong to the layer's scheme.
  Destination unwanted(const FrameHeader& header) const;
  /// Called when all sums of a step have arrived, before this is reported. Clears the records of
  /// the data that was received for this step, because a later step uses their place next.
  virtual void make_room(uint64_t) {}

 private:
  uint64_t& due(uint64_t step) { return due_[step % due_.size()]; }

  ExchangeContext& context_;
  const uint32_t layer_;
  uint64_t step_;  ///< the first step whose sums have not all arrived
  const uint64_t due_each_step_;
  std::vector<uint64_t> due_;  ///< by step modulo the window
};

}  // namespace poseidon::comm
