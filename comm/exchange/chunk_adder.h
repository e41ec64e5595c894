#pragma once

#include <memory>
#include <string>

#include "comm/exchange/server_context.h"
#include "comm/wire/slab_pool.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// The contents of one slice on a server: a contribution, a partial sum, or the encoded sum.
using SliceValues = std::shared_ptr<SlabPool::Slab>;

/// The arithmetic of the sum of one chunk on a server. The wire format of the chunk determines the
/// subclass. Each header argument is that of a contribution to the slice.
class ChunkAdder {
 public:
  virtual ~ChunkAdder() = default;

  const EncodedSlices& contribution() const { return contribution_; }
  const EncodedSlices& sum() const { return sum_; }

  /// Returns memory for the body of a contribution.
  virtual SliceValues room(const FrameHeader& header) = 0;
  /// Converts a received body to values that add() accepts. Returns null if the body encodes no
  /// such values.
  virtual SliceValues decoded(SliceValues body, const FrameHeader& header) = 0;
  /// Returns the sum of two partial sums, whose memory it may reuse. The order of the two does not
  /// change the bits.
  virtual SliceValues add(SliceValues one, SliceValues other, const FrameHeader& header) = 0;
  /// Encodes the complete sum of a slice. The first bytes of the result are the body of the frame
  /// that sends it.
  virtual SliceValues encoded(SliceValues sum, const FrameHeader& header) = 0;

 protected:
  ChunkAdder(const EncodedSlices& contribution, const EncodedSlices& sum)
      : contribution_(contribution), sum_(sum) {}

 private:
  const EncodedSlices contribution_, sum_;
};

/// Makes the adder of chunk `chunk` of the plan. `context` must outlive the result.
std::unique_ptr<ChunkAdder> make_chunk_adder(ServerContext& context, uint32_t chunk);

}  // namespace poseidon::comm
