#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/exchange/served_chunk.h"
#include "comm/exchange/server_context.h"

namespace poseidon::comm {

/// The sums of one server. It passes each contribution to its chunk. This class uses neither
/// sockets nor clocks.
class ServerShard {
 public:
  using Options = ExchangeOptions;

  /// `plan` and `outlet` must outlive this object.
  ServerShard(const Plan& plan, uint32_t rank, const Options& options, Outlet& outlet);
  ServerShard(const ServerShard&) = delete;  // chunks_ hold the address of context_
  ServerShard& operator=(const ServerShard&) = delete;

  /// Returns the destination for the body of a contribution of `worker`. Drops repeated and
  /// outdated frames, and rejects a frame that does not match the plan.
  Destination destination(uint32_t worker, const FrameHeader& header);
  /// Adds the body of an accepted frame, which has arrived. Returns the reason to reject the body,
  /// or "".
  std::string received(uint32_t worker, const FrameHeader& header);
  /// Releases the memory for the body of an accepted frame, which will not arrive.
  void forget(uint32_t worker);

  const TrafficCount& traffic() const { return context_.traffic; }
  const std::vector<LayerBytes>& bytes_of_layers() const { return context_.bytes_of_layer; }
  /// Names the item that the current sums await from `worker`, for messages: "the gradient of
  /// \"conv1\" of step 12 from worker 2". Returns "" if the sums await nothing from `worker`.
  std::string awaiting(uint32_t worker) const;
  /// Bytes of partial sums, and of slices that are being received or sent.
  uint64_t bytes_held() const { return context_.pool.bytes_in_use(); }

 private:
  ServerContext context_;
  std::vector<ServedChunk> chunks_;    ///< of this server
  std::vector<int32_t> own_index_;     ///< by chunk of the plan; -1: a chunk of another server
  std::vector<SliceValues> incoming_;  ///< by worker: the body that is being received
};

}  // namespace poseidon::comm
