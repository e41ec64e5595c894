#include "comm/membership/membership.h"

#include <algorithm>

#include "comm/membership/suspicion.h"

namespace poseidon::comm {

namespace {
/// The minimum timeout until the coordinator's Welcome sets the job's timeout.
constexpr Time kDefaultTimeout = std::chrono::seconds(10);
}  // namespace

Membership::Membership(const JoiningOptions& options_, Transport& transport_, MemberHost& host_,
                       PayloadReceiver& payload_)
    : options(options_),
      transport(transport_),
      host(host_),
      payload(payload_),
      liveness(std::max(kDefaultTimeout, options.join_timeout)),
      coordinator(transport, options.coordinator),
      peers(transport) {}

void Membership::identify(const JobId& job, uint32_t view) {
  self_ = {.role = options.role, .rank = -1, .view = view, .job = job, .address = options.address};
  coordinator.set_view(view);
}

void Membership::become_member(uint16_t rank) {
  id_ = rank;
  take_rank(rank);
  transport.present_as(self_);
}

void Membership::expect_at_most(int64_t workers, int64_t servers) {
  max_workers_ = workers;
  max_servers_ = servers;
}

bool Membership::may_be_member(NodeId node) const {
  if (peers.know_members()) return peers.is_member(node);
  return node.rank < (node.role == Role::kWorker ? max_workers_ : max_servers_);
}

void Membership::take_rank(uint16_t rank) {
  rank_ = rank;
  self_.rank = rank;
}

void Membership::leave_view() {
  mtu_check.forget_peers();
  for (const ConnectionId connection : peers.leave()) disconnect(connection);
}

void Membership::learn(int64_t view, const std::vector<RosterEntry>& roster) {
  self_.view = static_cast<uint32_t>(view);
  coordinator.set_view(self_.view);
  for (const RosterEntry& entry : roster)
    if (entry.role == options.role && (entry.member < 0 ? entry.rank : entry.member) == id_)
      take_rank(static_cast<uint16_t>(entry.rank));
  transport.present_as(self_);
  for (const ConnectionId pending_join : peers.learn(roster)) disconnect(pending_join);
}

std::optional<NodeId> Membership::node_of(ConnectionId connection) const {
  return coordinator.is(connection) ? NodeId{} : peers.node_of(connection);
}

void Membership::disconnect(ConnectionId connection) {
  liveness.remove(connection);
  transport.close(connection);
}

NodeFailure Membership::failure_of(NodeId failed_node, const std::string& why) const {
  const std::string awaited = payload.awaiting(failed_node);
  const bool is_coordinator = failed_node.role == Role::kCoordinator;
  return {.kind = NodeFailure::Kind::kPeer,
          .who = failed_node,
          .address = is_coordinator ? options.coordinator : peers.address_of(failed_node),
          .why = why,
          .step = host.step_under_way(),
          .awaited = awaited.empty() ? "" : name_of(node()) + " awaited " + awaited};
}

NodeFailure Membership::unreached(NodeId node, const std::string& why) const {
  NodeFailure failure = failure_of(node, why);
  failure.kind = NodeFailure::Kind::kUnreached;
  return failure;
}

NodeFailure Membership::decided(NodeFailure failure) const {
  if (failure.kind != NodeFailure::Kind::kUnreached) return failure;
  Suspicion alone;
  alone.add(node(), failure, options.address);
  return alone.failure_of(failure.who);
}

void Membership::begin_mtu_check(ConnectionId connection, NodeId node) {
  mtu_check.begin(node, now());
  transport.wake_at(now() + liveness.timeout());
  MtuCheck::send_proof(transport, connection, view());
}

NodeFailure Membership::own_failure(NodeFailure::Kind kind, const std::string& why) const {
  return {.kind = kind,
          .who = node(),
          .address = options.address,
          .why = why,
          .step = host.step_under_way(),
          .awaited = ""};
}

void Membership::end() {
  enter(MemberState::kEnded);
  coordinator.close();
  peers.close();
}

}  // namespace poseidon::comm
