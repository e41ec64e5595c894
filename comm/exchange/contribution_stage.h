#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/exchange/exchange_context.h"
#include "comm/exchange/layer_sum.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// A worker's contributions to one chunk until they are sent: one for each step in flight and each
/// part of the worker. The wire format of the chunk determines the subclass.
class ContributionStage {
 public:
  virtual ~ContributionStage() = default;

  /// Adds a contribution to one piece of the part with index `own` in ExchangeContext::parts.
  virtual void add(size_t own, size_t piece, const Contribution& contribution) = 0;
  /// Returns the body of one slice of a complete part. `header` is that of the slice.
  virtual Payload slice(size_t own, const FrameHeader& header) = 0;
};

/// Makes the stage of a chunk. `context` and `chunk` must outlive the result. The stage counts
/// rounded blocks in ExchangeContext::bytes_of_layer.
std::unique_ptr<ContributionStage> make_contribution_stage(ExchangeContext& context,
                                                           const Chunk& chunk);

/// Whether a chunk is one piece that needs no encoding. Such a chunk is sent from the tensor's
/// memory, and received into it, without a copy.
bool is_direct(const Plan& plan, const Chunk& chunk);

/// The elements of a tensor that a piece covers.
template <class Value>
std::span<Value> elements_of(std::span<Value> tensor, const Piece& piece) {
  return tensor.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count));
}

}  // namespace poseidon::comm
