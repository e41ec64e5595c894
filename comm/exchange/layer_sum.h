#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/exchange_context.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// What one worker gives to a layer's sum.
struct Contribution {
  uint64_t step = 0;
  uint32_t tensor = 0;  ///< its index in the layer; factors are of the layer as a whole
  Part part;            ///< one of the worker's parts; for factors one of its logical shards
  /// The sum of the part, which must stay until the layer has arrived; none for factors, which
  /// lie in ExchangeMemory.
  std::span<const float> values = {};
};

/// How one layer's contributions become its sums, as one worker sees it. There is one for each
/// layer of the plan, made by LayerSums (comm/exchange/layer_sums.h) by the layer's scheme.
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

  /// Takes this worker's own part, and sends it to whoever needs it.
  virtual void contribute(const Contribution& contribution) = 0;
  /// place() says where the body of a frame that names this layer shall go; received() that it is
  /// there.
  virtual Placement place(NodeId from, const FrameHeader& header) = 0;
  virtual void received(NodeId from, const FrameHeader& header) = 0;
  /// What is awaited from `node`, as messages name it: "the sum of \"conv1\" of step 12 from server
  /// 0"; "" when nothing is.
  virtual std::string awaiting(NodeId node) const = 0;

  /// Steps whose sums are in place.
  uint64_t step() const { return step_; }

 protected:
  ExchangeContext& context() const { return context_; }
  uint32_t layer() const { return layer_; }
  const LayerPlan& plan() const { return context_.plan.layers[layer_]; }
  /// Counts down what is due in `step`. Steps end in order: a later one that is complete waits for
  /// its turn.
  void done(uint64_t step, uint64_t count = 1);
  /// Refuses a frame that has nothing to do with the layer's scheme.
  Placement unwanted(const FrameHeader& header) const;
  /// Called when a step is complete, before its arrival is reported: its entry in the window is a
  /// later step's from now on.
  virtual void make_room(uint64_t) {}

 private:
  uint64_t& due(uint64_t step) { return due_[step % due_.size()]; }

  ExchangeContext& context_;
  const uint32_t layer_;
  uint64_t step_;  ///< that is awaited
  const uint64_t due_each_step_;
  std::vector<uint64_t> due_;  ///< by step modulo the window
};

}  // namespace poseidon::comm
