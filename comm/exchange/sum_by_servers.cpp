#include "comm/exchange/sum_by_servers.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

SumByServers::SumByServers(ExchangeContext& context, uint32_t layer, std::span<ChunkSum> chunks,
                           std::span<const PieceOf> pieces)
    : LayerSum(context, layer, steps_in_flight(context.plan), pieces.size()),
      chunks_(chunks),
      pieces_(plan().traffic.tensors.size()) {
  for (const PieceOf& place : pieces) {
    pieces_[context.plan.chunks[place.chunk].pieces[place.piece].tensor].push_back(place);
    chunks_[place.chunk].set_owner(place.piece, *this);
  }
}

size_t SumByServers::own_part(Part part) const {
  const std::vector<Part>& parts = context().parts;
  const auto found = std::ranges::find_if(parts, [&](const Part& own) {
    return own.first <= part.first && part.first + part.count <= own.first + own.count;
  });
  check(found != parts.end(), "a worker contributes its own parts only");
  return static_cast<size_t>(found - parts.begin());
}

void SumByServers::contribute(const Contribution& contribution) {
  const size_t own = own_part(contribution.part);
  for (const auto& [chunk, piece] : pieces_[contribution.tensor])
    chunks_[chunk].contribute(own, piece, contribution);
}

Destination SumByServers::destination(NodeId from, const FrameHeader& header) {
  if (header.kind != FrameKind::kSum) return unwanted(header);
  if (header.chunk >= chunks_.size())
    return Destination::refused(
        text("sent a sum of chunk ", header.chunk, ", which another server sums"));
  return chunks_[header.chunk].destination(from, header);
}

std::string SumByServers::received(NodeId, const FrameHeader& header) {
  return chunks_[header.chunk].received(header);
}

std::string SumByServers::awaiting(NodeId node) const {
  if (node.role != Role::kServer) return "";
  for (const std::vector<PieceOf>& pieces : pieces_)
    for (const PieceOf& place : pieces)
      if (const ChunkSum& chunk = chunks_[place.chunk];
          chunk.step() == step() && chunk.server() == node.rank)
        return text("the sum of \"", plan().traffic.name, "\" of step ", step() + 1, " from ",
                    name_of(node));
  return "";
}

}  // namespace poseidon::comm
