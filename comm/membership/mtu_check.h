#pragma once

#include <map>
#include <optional>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Proves that large messages pass between two nodes. Each end of a new connection sends one proof
/// of kBytes. Small messages alone prove nothing: the handshake and all heartbeats also pass on a
/// path that silently drops large packets.
class MtuCheck {
 public:
  /// More than a jumbo frame (9,000 bytes). A link of 0.1 Mbit/s sends it in 1.3 seconds.
  static constexpr size_t kBytes = 16 * 1024;

  static bool is_proof(const FrameHeader& header);
  static void send_proof(Transport& transport, ConnectionId to, uint32_t view);

  /// Returns the destination of a proof's body; empty if the length is wrong.
  std::span<std::byte> destination(const FrameHeader& header);

  /// Starts to wait for the proof of `peer`, whose connection is open.
  void begin(NodeId peer, Time now) { waiting_[peer] = now; }
  /// Records that the proof of `peer` has arrived.
  void complete(NodeId peer) { waiting_.erase(peer); }
  /// Stops waiting for the proof of `peer`, whose connection is closed.
  void forget(NodeId peer) { waiting_.erase(peer); }
  /// Stops waiting for all proofs except that of the coordinator.
  void forget_peers();
  /// Whether the proof of a connected node is still missing.
  bool is_missing(NodeId peer) const { return waiting_.contains(peer); }
  /// Returns the nodes that have been connected for `limit` and whose proof is missing.
  std::vector<NodeId> overdue(Time now, Time limit) const;

 private:
  std::map<NodeId, Time> waiting_;  ///< when the connection to the node opened
  std::vector<std::byte> room_;
};

}  // namespace poseidon::comm
