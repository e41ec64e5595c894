#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange/chunk_adder.h"
#include "comm/exchange/server_context.h"

namespace poseidon::comm {

/// One chunk of the plan on its server. It adds the workers' contributions slice by slice, by the
/// fixed tree, as they arrive. As soon as the sum of a slice is complete, it sends the sum to all
/// workers and keeps no copy. Up to staleness + 1 steps may be in flight.
class ServedChunk {
 public:
  /// `context` must outlive this object. `index` is that of the chunk in the plan.
  ServedChunk(ServerContext& context, uint32_t index);

  /// Returns the reason to reject a contribution of `worker`; "" if it matches the plan.
  std::string fault_of(uint32_t worker, const FrameHeader& header) const;
  /// Whether a contribution without a fault has already arrived.
  bool has(const FrameHeader& header) const;
  bool is_summed(uint64_t step) const { return step < step_; }
  /// Returns memory for the body of a contribution.
  SliceValues room(const FrameHeader& header) { return adder_->room(header); }
  /// Adds a contribution whose body has arrived; null without payload. Sends the sum of its slice
  /// if it is now complete. Returns the reason to reject the body, or "".
  std::string add(const FrameHeader& header, SliceValues body);
  /// Names the contribution that the current sum awaits from `worker`. Returns "" if there is none.
  /// Only slices to which some worker has contributed count.
  std::string awaiting(uint32_t worker) const;

 private:
  /// The state of the sum of one slice. For each node of the fixed tree, `complete` is whether its
  /// sum is complete. `values` holds this sum until it is added to the sum of the sibling node.
  struct SliceSum {
    std::vector<bool> complete;
    std::vector<SliceValues> values;
  };
  struct StepSum {
    uint64_t slices_done = 0;
    uint64_t bytes_received = 0;  ///< from other hosts
    std::vector<SliceSum> slices = {};
  };

  StepSum& at(uint64_t step) { return window_[step % window_.size()]; }
  const StepSum& at(uint64_t step) const { return window_[step % window_.size()]; }
  void climb(const FrameHeader& header, SliceValues values);
  void send_sum(const FrameHeader& of, const SliceValues& values);
  void finish_slice(const FrameHeader& of);
  void count_bytes(uint64_t received);

  ServerContext& context_;
  const Chunk& chunk_;
  const uint32_t index_;
  std::unique_ptr<ChunkAdder> adder_;
  uint64_t step_;                ///< the first step that is not summed yet
  std::vector<StepSum> window_;  ///< steps from step_ on, by step modulo the window's size
};

}  // namespace poseidon::comm
