#include "comm/membership/peers.h"

#include <algorithm>

namespace poseidon::comm {

namespace {
constexpr Time kPause = std::chrono::milliseconds(200);  // between two calls
}  // namespace

std::vector<ConnectionId> Peers::learn(const std::vector<RosterEntry>& roster) {
  for (const RosterEntry& entry : roster)
    roster_[{entry.role, static_cast<uint16_t>(entry.rank)}] = entry.address;
  std::vector<ConnectionId> strangers;
  for (const auto& [node, connection] : connection_of_)
    if (!is_member(node)) strangers.push_back(connection);
  for (const ConnectionId connection : strangers) ended(connection);
  return strangers;
}

std::vector<NodeId> Peers::members(const std::function<bool(NodeId)>& condition) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, address] : roster_)
    if (condition(node)) nodes.push_back(node);
  return nodes;
}

std::string Peers::address_of(NodeId node) const {
  const auto found = roster_.find(node);
  return found == roster_.end() ? "" : found->second;
}

void Peers::call(NodeId peer, const PeerIdentity& self) {
  const bool is_called =
      call_again_at_.contains(peer) ||
      std::ranges::any_of(calls_, [peer](const auto& call) { return call.second == peer; });
  if (!is_connected(peer) && !is_called) dial(peer, self);
}

void Peers::dial(NodeId peer, const PeerIdentity& self) {
  call_again_at_.erase(peer);
  calls_[transport_.connect(roster_.at(peer), self, peer)] = peer;
}

void Peers::call_again(const PeerIdentity& self) {
  const Time now = transport_.now();
  for (const auto& [node, when] : std::map(call_again_at_))
    if (now >= when) dial(node, self);
}

std::map<NodeId, std::string> Peers::unreached_members() const {
  std::map<NodeId, std::string> nodes;
  const auto add = [&](NodeId node) {
    const auto why = call_errors_.find(node);
    nodes[node] = why == call_errors_.end() ? "no answer yet" : why->second;
  };
  for (const auto& [connection, node] : calls_) add(node);
  for (const auto& [node, when] : call_again_at_) add(node);
  return nodes;
}

void Peers::add(ConnectionId connection, NodeId node) {
  connection_of_[node] = connection;
  node_of_[connection] = node;
}

bool Peers::are_connected(const std::vector<NodeId>& nodes) const {
  return std::ranges::all_of(nodes, [this](NodeId node) { return is_connected(node); });
}

std::optional<NodeId> Peers::node_of(ConnectionId connection) const {
  const auto found = node_of_.find(connection);
  return found == node_of_.end() ? std::nullopt : std::optional(found->second);
}

Peers::End Peers::ended(ConnectionId connection, const std::string& why) {
  if (const auto call = calls_.find(connection); call != calls_.end()) {
    const NodeId node = call->second;
    calls_.erase(call);
    call_errors_[node] = why;
    const Time now = transport_.now();
    if (now >= until_) return {.node = node};
    call_again_at_[node] = now + kPause;
    transport_.wake_at(call_again_at_[node]);
    return {.node = node, .calls_again = true};
  }
  const std::optional<NodeId> node = node_of(connection);
  if (!node) return {};
  node_of_.erase(connection);
  connection_of_.erase(*node);
  return {.node = node, .was_open = true};
}

void Peers::send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) {
  const auto found = connection_of_.find(to);
  if (found != connection_of_.end())
    transport_.send(found->second, header, std::move(payload), priority);
}

std::vector<ConnectionId> Peers::leave() {
  std::vector<ConnectionId> all;
  for (const auto& [connection, node] : node_of_) all.push_back(connection);
  for (const auto& [connection, node] : calls_) all.push_back(connection);
  roster_.clear();
  connection_of_.clear();
  node_of_.clear();
  calls_.clear();
  call_again_at_.clear();
  call_errors_.clear();
  return all;
}

void Peers::close() {
  for (const auto& [connection, node] : node_of_) transport_.close(connection);
  for (const auto& [connection, node] : calls_) transport_.close(connection);
}

}  // namespace poseidon::comm
