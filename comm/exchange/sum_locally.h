#pragma once

#include "comm/exchange/layer_sum.h"

namespace poseidon::comm {

/// The sum of a layer if there is only one worker: the contributions are the sums, and nothing is
/// sent.
class SumLocally final : public LayerSum {
 public:
  SumLocally(ExchangeContext& context, uint32_t layer)
      : LayerSum(context, layer, steps_in_flight(context.plan),
                 context.plan.layers[layer].traffic.tensors.size()) {}

  void contribute(const Contribution& contribution) override { done(contribution.step); }
  Destination destination(NodeId, const FrameHeader& header) override { return unwanted(header); }
  std::string received(NodeId, const FrameHeader&) override { return ""; }
  std::string awaiting(NodeId) const override { return ""; }
};

}  // namespace poseidon::comm
