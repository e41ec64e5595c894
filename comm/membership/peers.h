#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A member's connections to the other members.
class Peers final : public Outlet {
 public:
  /// `transport` must outlive this object.
  explicit Peers(Transport& transport) : transport_(transport) {}

  /// Sets the members, and returns the connections of nodes that are not members. Nodes may have
  /// connected before this node knew the members.
  std::vector<ConnectionId> learn(const std::vector<RosterEntry>& roster);
  /// Whether the members are known.
  bool know_members() const { return !roster_.empty(); }
  bool is_member(NodeId node) const { return roster_.contains(node); }
  /// Returns the members for which `condition` is true.
  std::vector<NodeId> members(const std::function<bool(NodeId)>& condition) const;
  /// Returns "" for a node that is no member.
  std::string address_of(NodeId node) const;

  /// Connects to a member. After a failure (ended()) call_again() tries again, until the member is
  /// reached or the time of expect_until() has passed. Does nothing if the member is connected, or
  /// a call is in progress.
  void call(NodeId peer, const PeerIdentity& self);
  /// Repeats the calls that are due.
  void call_again(const PeerIdentity& self);
  /// Sets the time until which calls are repeated.
  void expect_until(Time when) { until_ = when; }
  /// Returns the members that this node calls and has not reached, each with the reason of the last
  /// failure.
  std::map<NodeId, std::string> unreached_members() const;
  /// Called when a connection is open. If this node made the call, ends the call.
  void answered(ConnectionId connection) { calls_.erase(connection); }
  /// Assigns an open connection to a node.
  void add(ConnectionId connection, NodeId node);
  bool are_connected(const std::vector<NodeId>& nodes) const;
  bool is_connected(NodeId node) const { return connection_of_.contains(node); }
  /// Returns the node of an open connection; nullopt for any other connection.
  std::optional<NodeId> node_of(ConnectionId connection) const;

  /// The result of ended(), which reports that a connection has ended.
  struct End {
    std::optional<NodeId> node;  ///< the node of the connection; nullopt: unknown
    bool was_open = false;
    bool calls_again = false;  ///< the connection was a call, which will be repeated
  };
  End ended(ConnectionId connection, const std::string& why = "");

  void send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) override;
  /// Forgets the members and their connections, including calls in progress. Returns these
  /// connections; the caller closes them.
  std::vector<ConnectionId> leave();
  /// Closes all connections.
  void close();

 private:
  void dial(NodeId peer, const PeerIdentity& self);

  Transport& transport_;
  std::map<NodeId, std::string> roster_;  ///< the members' addresses
  std::map<NodeId, ConnectionId> connection_of_;
  std::map<ConnectionId, NodeId> node_of_;  ///< by open connection
  std::map<ConnectionId, NodeId> calls_;    ///< the called node, by connection that is not open yet
  std::map<NodeId, Time> call_again_at_;
  std::map<NodeId, std::string> call_errors_;  ///< why the last call of a member failed
  Time until_{0};
};

}  // namespace poseidon::comm
