#pragma once

#include <vector>

#include "comm/exchange/layer_sum.h"
#include "comm/wire/codec.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// The state that all layers with factors share on one worker.
struct FactorBuffers {
  explicit FactorBuffers(const Plan& plan);

  const ValueCodec& codec;                   ///< of factors
  std::vector<IndexRange> rows;              ///< by logical shard: its samples in the global batch
  std::vector<std::vector<std::byte>> wire;  ///< by sender: a received slice, encoded
  std::vector<std::byte> dense;              ///< the dense form of a slice received as sparse
};

/// The sum of a layer by factors. Each worker sends the rows of its logical shards to all
/// peers, receives the other rows in ExchangeMemory::factors, and rebuilds the sum from all rows. A
/// slice is sent in its sparse form (comm/wire/sparse.h) if that is shorter.
class SumByFactors final : public LayerSum {
 public:
  /// `factor_buffers` must outlive this object.
  SumByFactors(ExchangeContext& context, uint32_t layer, FactorBuffers& factor_buffers);

  void contribute(const Contribution& contribution) override;
  Destination destination(NodeId from, const FrameHeader& header) override;
  std::string received(NodeId from, const FrameHeader& header) override;
  std::string awaiting(NodeId node) const override;

 private:
  /// One of the two factors of one logical shard.
  struct Rows {
    uint32_t which = 0, shard = 0;
  };

  void make_room(uint64_t step) override;
  void send(uint64_t step, Rows rows);
  std::vector<Payload> payloads_of(uint64_t step, Rows rows) const;
  bool unpack(NodeId from, const FrameHeader& header);
  std::string fault_of(NodeId from, const FrameHeader& header) const;
  bool lacks_some(uint32_t shard) const;
  uint64_t width(uint32_t which) const;
  EncodedSlices slices(Rows rows) const;
  /// Whether ExchangeMemory::factors receives the body of a frame without a copy.
  bool is_direct(const FrameHeader& header) const;
  std::span<float> values_of(const FrameHeader& header) const;
  std::span<float> values(uint64_t step, Rows rows) const;
  /// All slices of the factors of a step are numbered in one sequence. Those of `rows` start at
  /// first_slice() and end before end_slice().
  uint64_t first_slice(Rows rows) const { return first_slice_[2 * rows.shard + rows.which]; }
  uint64_t end_slice(Rows rows) const { return first_slice_[2 * rows.shard + rows.which + 1]; }
  uint64_t slice_of(Rows rows, const FrameHeader& header) const {
    return first_slice(rows) + EncodedSlices::index_of(header);
  }
  std::vector<bool>& received_slices(uint64_t step) {
    return received_slices_[step % received_slices_.size()];
  }
  const std::vector<bool>& received_slices(uint64_t step) const {
    return received_slices_[step % received_slices_.size()];
  }

  FactorBuffers& factor_buffers_;
  std::vector<uint64_t> first_slice_;  ///< by shard, deltas before activations; then the end
  std::vector<std::vector<bool>> received_slices_;  ///< by step modulo steps_of_factors(), by slice
};

}  // namespace poseidon::comm
