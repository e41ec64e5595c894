#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinator_link.h"
#include "comm/membership/member_host.h"
#include "comm/membership/mtu_check.h"
#include "comm/membership/payload_receiver.h"
#include "comm/membership/peers.h"
#include "comm/wire/liveness.h"

namespace poseidon::comm {

struct JoiningOptions {
  Role role = Role::kWorker;
  int64_t wanted_rank = -1;
  std::string coordinator;  ///< "host:port"
  std::string address;      ///< "host:port" at which the other nodes reach this node
  std::vector<Fact> facts;
  Time pause{0};         ///< wait before the first attempt to connect
  Time join_timeout{0};  ///< limit on the time for attempts to join; 0: no limit
  bool carries_payload = true;
  JobId avoided = {};  ///< the job that this node must not join again; zeros: none
};

/// comm/membership/states.h describes how and when each state ends.
enum class MemberState : uint8_t {
  kSeeking,        ///< no coordinator yet
  kJoining,        ///< has requested to join
  kPreparing,      ///< is admitted; opens job and data
  kReconfiguring,  ///< has left a view, and waits for the next view's plan
  kConnecting,     ///< knows the plan, and connects to its peers
  kReady,          ///< has reported that it is ready
  kRunning,
  kFinished,    ///< all steps are done
  kSuspecting,  ///< has reported a failure, and waits for the coordinator's decision
  kFailing,     ///< the job has failed
  kEnded,
};

/// A node's membership of a job: the state that the components of a member share.
class Membership {
 public:
  Membership(const JoiningOptions& options, Transport& transport, MemberHost& host,
             PayloadReceiver& payload);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  MemberState state() const { return state_; }
  void enter(MemberState state) { state_ = state; }
  Time now() const { return transport.now(); }

  const PeerIdentity& self() const { return self_; }
  uint32_t view() const { return self_.view; }
  uint16_t rank() const { return rank_; }
  NodeId node() const { return {options.role, rank_}; }
  /// Records that this node has reached the coordinator of `job`.
  void identify(const JobId& job, uint32_t view);
  /// Records that the coordinator has admitted this node. A later view may change the rank.
  void become_member(uint16_t rank);
  /// Sets the maximum numbers of workers and servers, for the time before the members are known.
  void expect_at_most(int64_t workers, int64_t servers);
  /// Whether a node may be a member. The roster decides. Before the roster arrives, the rank must
  /// be below the maximum number of its role.
  bool may_be_member(NodeId node) const;
  /// Disconnects from all peers, because the next view may have other peers.
  void leave_view();
  /// Sets the view, its members, and this node's rank in it.
  void learn(int64_t view, const std::vector<RosterEntry>& roster);

  /// Returns the node of a connection: the coordinator or a peer. nullopt: any other connection.
  std::optional<NodeId> node_of(ConnectionId connection) const;
  /// Closes the connection, and expects no more heartbeats from it.
  void disconnect(ConnectionId connection);
  /// Makes a report that `node` failed in the current step. It names the item that this node awaits
  /// from the failed node.
  NodeFailure failure_of(NodeId node, const std::string& why) const;
  /// Makes a report that this node has never reached a peer.
  NodeFailure unreached(NodeId node, const std::string& why) const;
  /// Returns a failure of kind kUnreached with a complete sentence as reason, and any other failure
  /// unchanged. Used if the coordinator sends no decision.
  NodeFailure decided(NodeFailure failure) const;
  /// Called when the connection to `node` is open. Sends this node's MtuCheck proof, and awaits the
  /// proof of `node`.
  void begin_mtu_check(ConnectionId connection, NodeId node);
  /// Makes a failure that this node itself causes.
  NodeFailure own_failure(NodeFailure::Kind kind, const std::string& why) const;
  /// Ends the membership, and all connections.
  void end();

  const JoiningOptions options;
  Transport& transport;
  MemberHost& host;
  PayloadReceiver& payload;
  Liveness liveness;
  CoordinatorLink coordinator;
  Peers peers;
  MtuCheck mtu_check;

 private:
  void take_rank(uint16_t rank);

  MemberState state_ = MemberState::kSeeking;
  uint16_t id_ = 0;  ///< the rank in the Welcome message to this node
  uint16_t rank_ = 0;
  int64_t max_workers_ = 0, max_servers_ = 0;
  PeerIdentity self_;
};

}  // namespace poseidon::comm
