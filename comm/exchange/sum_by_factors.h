#pragma once

#include <vector>

#include "comm/exchange/layer_sum.h"
#include "comm/wire/number_format.h"

namespace poseidon::comm {

/// The state that all layers with factors share on one worker.
struct FactorLanes {
  explicit FactorLanes(const Plan& plan);

  DataType number;                           ///< the wire dtype of factors
  std::vector<IndexRange> rows;              ///< of each logical shard in the global batch
  std::vector<std::vector<std::byte>> wire;  ///< by worker: a received slice of bf16 factors
};

/// The sum of a linear layer by factors. Each worker sends the rows of its logical shards to all
/// peers, receives the other rows in ExchangeMemory::factors, and rebuilds the sum from all rows.
class SumByFactors final : public LayerSum {
 public:
  /// `lanes` must outlive it.
  SumByFactors(ExchangeContext& context, uint32_t layer, FactorLanes& lanes);

  void contribute(const Contribution& contribution) override;
  Destination place(NodeId from, const FrameHeader& header) override;
  void received(NodeId from, const FrameHeader& header) override;
  std::string awaiting(NodeId node) const override;

 private:
  /// One of the two factors of one logical shard.
  struct Rows {
    uint32_t which = 0, shard = 0;
  };

  void make_room(uint64_t step) override;
  void send(uint64_t step, Rows rows);
  Payload payload_of(uint64_t step, Rows rows) const;
  std::string fault_of(NodeId from, const FrameHeader& header) const;
  bool lacks_some(uint32_t shard) const;
  uint64_t width(uint32_t which) const;
  uint64_t bytes(Rows rows) const;
  std::span<float> values(uint64_t step, Rows rows) const;
  /// The range of the slices of `rows` among the slices of all factors of a step.
  uint64_t first_slice(Rows rows) const { return first_slice_[2 * rows.shard + rows.which]; }
  uint64_t end_slice(Rows rows) const { return first_slice_[2 * rows.shard + rows.which + 1]; }
  std::vector<bool>& came(uint64_t step) { return came_[step % came_.size()]; }
  const std::vector<bool>& came(uint64_t step) const { return came_[step % came_.size()]; }

  FactorLanes& lanes_;
  std::vector<uint64_t> first_slice_;    ///< by shard, deltas before activations; then the end
  std::vector<std::vector<bool>> came_;  ///< by step modulo steps_of_factors(), by slice
};

}  // namespace poseidon::comm
