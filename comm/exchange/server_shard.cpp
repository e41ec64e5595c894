#include "comm/exchange/server_shard.h"

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

ServerShard::ServerShard(const Plan& plan, uint32_t rank, const Options& options, Outlet& outlet)
    : context_{.plan = plan,
               .rank = rank,
               .options = options,
               .outlet = outlet,
               .tree = PartTree(plan.assignment.ranges()),
               .bytes_of_layer = std::vector<LayerBytes>(plan.layers.size())},
      own_index_(plan.chunks.size(), -1),
      incoming_(static_cast<size_t>(plan.workers())) {
  for (uint32_t chunk = 0; chunk < plan.chunks.size(); ++chunk) {
    if (plan.chunks[chunk].server != rank) continue;
    own_index_[chunk] = static_cast<int32_t>(chunks_.size());
    chunks_.emplace_back(context_, chunk);
  }
}

Destination ServerShard::destination(uint32_t worker, const FrameHeader& header) {
  if (header.view != context_.options.view && !mutated(Mutation::kOldView)) {
    ++context_.traffic.outdated;
    return Destination::dropped();
  }
  if (header.chunk >= own_index_.size() || own_index_[header.chunk] < 0)
    return Destination::refused(text("sent a contribution to chunk ", header.chunk,
                                     ", which is not on server ", context_.rank));
  ServedChunk& chunk = chunks_[static_cast<size_t>(own_index_[header.chunk])];
  std::string fault = chunk.fault_of(worker, header);
  if (!fault.empty()) return Destination::refused(std::move(fault));
  if (chunk.has(header)) {
    ++context_.traffic.repeated;
    if (!mutated(Mutation::kDoubleContribution) || chunk.is_summed(header.step))
      return Destination::dropped();
  }
  if (!context_.options.carries_payload) return Destination::into({});
  incoming_[worker] = chunk.room(header);
  return Destination::into(incoming_[worker]->bytes());
}

void ServerShard::forget(uint32_t worker) {
  if (worker < incoming_.size()) incoming_[worker].reset();
}

std::string ServerShard::received(uint32_t worker, const FrameHeader& header) {
  context_.traffic.bytes_received += header.length;
  return chunks_[static_cast<size_t>(own_index_[header.chunk])].add(header,
                                                                    std::move(incoming_[worker]));
}

std::string ServerShard::awaiting(uint32_t worker) const {
  for (const ServedChunk& chunk : chunks_)
    if (std::string what = chunk.awaiting(worker); !what.empty()) return what;
  return "";
}

}  // namespace poseidon::comm
