#include "comm/membership/mtu_check.h"

namespace poseidon::comm {

namespace {

/// FrameHeader::chunk of a proof. The probes of link_probe.cpp use 0 and 1.
constexpr uint32_t kProof = 2;

/// The body of a proof; its content has no meaning.
const std::shared_ptr<const std::vector<std::byte>>& proof() {
  static const auto bytes = std::make_shared<const std::vector<std::byte>>(MtuCheck::kBytes);
  return bytes;
}

}  // namespace

bool MtuCheck::is_proof(const FrameHeader& header) {
  return header.kind == FrameKind::kProbe && header.chunk == kProof;
}

void MtuCheck::send_proof(Transport& transport, ConnectionId to, uint32_t view) {
  transport.send(to, {.kind = FrameKind::kProbe, .view = view, .chunk = kProof, .length = kBytes},
                 {*proof(), proof()}, bulk_priority(0));
}

std::span<std::byte> MtuCheck::destination(const FrameHeader& header) {
  if (header.length != kBytes) return {};
  room_.resize(kBytes);
  return room_;
}

void MtuCheck::forget_peers() {
  std::erase_if(waiting_, [](const auto& entry) { return entry.first != NodeId{}; });
}

std::vector<NodeId> MtuCheck::overdue(Time now, Time limit) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, since] : waiting_)
    if (now - since >= limit) nodes.push_back(node);
  return nodes;
}

}  // namespace poseidon::comm
