#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/plan/shard_parts.h"
#include "comm/wire/codec.h"
#include "comm/wire/outlet.h"
#include "comm/wire/slab_pool.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// The sums of one server. It receives the workers' contributions to its chunks slice by slice, and
/// adds them by the fixed tree as they arrive. As soon as the sum of a slice is complete, it sends
/// the sum to all workers and keeps no copy. Up to staleness + 1 steps may be in flight. This class
/// uses neither sockets nor clocks.
class ServerShard {
 public:
  struct Options {
    uint32_t view = 0;
    bool carries_payload = true;  ///< false in a planning run, whose frames have only lengths
    uint64_t first_step = 0;
  };

  /// `plan` and `outlet` must outlive this object.
  ServerShard(const Plan& plan, uint32_t rank, const Options& options, Outlet& outlet);

  /// Returns the destination for the body of a contribution of `worker`. Drops repeated and
  /// outdated frames, and rejects a frame that does not match the plan.
  Destination destination(uint32_t worker, const FrameHeader& header);
  /// Adds the body of an accepted frame, which has arrived. Sends the sum of its slice if it is now
  /// complete.
  void received(uint32_t worker, const FrameHeader& header);
  /// Releases the memory for the body of an accepted frame, which will not arrive.
  void forget(uint32_t worker);

  const TrafficCount& traffic() const { return traffic_; }
  const std::vector<LayerBytes>& bytes_of_layers() const { return bytes_of_layer_; }
  /// Names the item that the current sums await from `worker`, for messages: "the gradient of
  /// \"conv1\" of step 12 from worker 2". Returns "" if the sums await nothing from `worker`. Only
  /// slices to which some worker has contributed count.
  std::string awaiting(uint32_t worker) const;
  /// Bytes of partial sums, and of slices that are being received or sent.
  uint64_t bytes_held() const { return pool_.bytes_in_use(); }

 private:
  using Values = std::shared_ptr<SlabPool::Slab>;  ///< fp32 values of one slice
  /// The state of the sum of one slice. For each node of the fixed tree, `complete` is whether its
  /// sum is complete. `values` holds this sum until it is added to the sum of the sibling node.
  struct SliceSum {
    std::vector<bool> complete;
    std::vector<Values> values;
  };
  struct StepSum {
    uint64_t slices_done = 0;
    std::vector<SliceSum> slices = {};
  };
  struct OwnChunk {
    uint32_t key = 0;
    EncodedSlices contribution, sum;
    uint64_t step = 0;                 ///< the first step that is not summed yet
    std::vector<StepSum> window = {};  ///< steps from `step` on, by step modulo the window's size
    StepSum& at(uint64_t which) { return window[which % window.size()]; }
    const StepSum& at(uint64_t which) const { return window[which % window.size()]; }
  };
  struct Incoming {
    std::vector<std::byte> wire;  ///< a slice as received; unused if the codec copies
    Values values;
  };

  OwnChunk* own_chunk(uint32_t chunk);
  std::string fault_of(uint32_t worker, const FrameHeader& header) const;
  void complete(const FrameHeader& header, Values values);
  void send_sum(const FrameHeader& of, const Values& values);
  void finish_slice(const FrameHeader& of);
  void count_bytes(uint32_t chunk);

  const Plan& plan_;
  const uint32_t rank_;
  const Options options_;
  Outlet& outlet_;
  const PartTree tree_;
  SlabPool pool_;
  std::vector<int32_t> own_index_;  ///< by chunk of the plan; -1: a chunk of another server
  std::vector<OwnChunk> own_;
  std::vector<Incoming> incoming_;  ///< by worker
  TrafficCount traffic_;
  std::vector<LayerBytes> bytes_of_layer_;
};

}  // namespace poseidon::comm
