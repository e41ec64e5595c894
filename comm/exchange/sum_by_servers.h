#pragma once

#include <span>
#include <vector>

#include "comm/exchange/chunk_sum.h"
#include "comm/exchange/layer_sum.h"

namespace poseidon::comm {

/// A layer whose gradients and statistics the servers sum. Its tensors are divided into chunks,
/// which may also hold tensors of neighboring layers. A frame names the chunk, and as its key the
/// first layer of the chunk.
class SumByServers final : public LayerSum, public PieceOwner {
 public:
  /// A piece of one of the layer's tensors: the index of its chunk, and its index in the chunk.
  struct PieceOf {
    uint32_t chunk = 0, piece = 0;
  };

  /// `chunks` are all chunks of the plan, and must outlive this object. `pieces` are all pieces of
  /// the layer.
  SumByServers(ExchangeContext& context, uint32_t layer, std::span<ChunkSum> chunks,
               std::span<const PieceOf> pieces);

  void contribute(const Contribution& contribution) override;
  Destination destination(NodeId from, const FrameHeader& header) override;
  std::string received(NodeId from, const FrameHeader& header) override;
  std::string awaiting(NodeId node) const override;
  void piece_summed(uint64_t step) override { done(step); }

 private:
  size_t own_part(Part part) const;

  const std::span<ChunkSum> chunks_;
  std::vector<std::vector<PieceOf>> pieces_;  ///< by tensor
};

}  // namespace poseidon::comm
