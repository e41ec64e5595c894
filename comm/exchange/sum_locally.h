#pragma once

#include "comm/exchange/layer_sum.h"

namespace poseidon::comm {

/// The sum of a layer if there is only one worker: the contributions are the sums, and nothing is
/// sent. Gradients of rounded shards are added and rounded as on a server.
class SumLocally final : public LayerSum {
 public:
  SumLocally(ExchangeContext& context, uint32_t layer);

  void contribute(const Contribution& contribution) override;
  Destination destination(NodeId, const FrameHeader& header) override { return unwanted(header); }
  std::string received(NodeId, const FrameHeader&) override { return ""; }
  std::string awaiting(NodeId) const override { return ""; }

 private:
  std::vector<IntegerSum> sums_;  ///< by step in flight and tensor; empty for other wire formats
};

}  // namespace poseidon::comm
