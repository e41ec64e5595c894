#include "comm/membership/membership.h"

#include <algorithm>

#include "comm/membership/suspicion.h"

namespace poseidon::comm {

namespace {
/// Until the coordinator's welcome sets the job's timeout.
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
  most_workers_ = workers;
  most_servers_ = servers;
}

bool Membership::may_be_member(NodeId node) const {
  if (peers.know_members()) return peers.is_member(node);
  return node.rank < (node.role == Role::kWorker ? most_workers_ : most_servers_);
}

void Membership::take_rank(uint16_t rank) {
  rank_ = rank;
  self_.rank = rank;
}

void Membership::leave_view() {
  contact.forget_peers();
  for (const ConnectionId connection : peers.leave()) disconnect(connection);
}

void Membership::learn(int64_t view, const std::vector<RosterEntry>& roster) {
  self_.view = static_cast<uint32_t>(view);
  coordinator.set_view(self_.view);
  for (const RosterEntry& entry : roster)
    if (entry.role == options.role && (entry.member < 0 ? entry.rank : entry.member) == id_)
      take_rank(static_cast<uint16_t>(entry.rank));
  transport.present_as(self_);
  for (const ConnectionId stranger : peers.learn(roster)) disconnect(stranger);
}

std::optional<NodeId> Membership::node_of(ConnectionId connection) const {
  return coordinator.is(connection) ? NodeId{} : peers.node_of(connection);
}

void Membership::disconnect(ConnectionId connection) {
  liveness.remove(connection);
  transport.close(connection);
}

NodeFailure Membership::loss_of(NodeId lost, const std::string& why) const {
  const std::string awaited = payload.awaiting(lost);
  const bool is_coordinator = lost.role == Role::kCoordinator;
  return {.kind = NodeFailure::Kind::kPeer,
          .who = lost,
          .address = is_coordinator ? options.coordinator : peers.address_of(lost),
          .why = why,
          .step = host.step_under_way(),
          .awaited = awaited.empty() ? "" : name_of(node()) + " awaited " + awaited};
}

NodeFailure Membership::unreached(NodeId node, const std::string& why) const {
  NodeFailure loss = loss_of(node, why);
  loss.kind = NodeFailure::Kind::kUnreached;
  return loss;
}

NodeFailure Membership::decided(NodeFailure loss) const {
  if (loss.kind != NodeFailure::Kind::kUnreached) return loss;
  Suspicion alone;
  alone.add(node(), loss, options.address);
  return alone.loss_of(loss.who);
}

void Membership::begin_contact(ConnectionId connection, NodeId node) {
  contact.begin(node, now());
  transport.wake_at(now() + liveness.timeout());
  Contact::send_proof(transport, connection, view());
}

NodeFailure Membership::own_loss(NodeFailure::Kind kind, const std::string& why) const {
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
