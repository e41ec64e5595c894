#include "comm/membership/meeting.h"

#include <algorithm>
#include <set>

#include "comm/wire/reachability.h"

namespace poseidon::comm {

void Meeting::prepared(const std::vector<Fact>& facts) {
  prepared_ = true;
  me_.coordinator.tell(Prepared{facts});
}

void Meeting::learn(int64_t view, const std::vector<RosterEntry>& roster) {
  me_.learn(view, roster);
  me_.peers.expect_until(me_.now() + me_.liveness.timeout());
}

void Meeting::connected() {
  say_met_when_complete();
  say_ready_when_complete();
}

void Meeting::take_proof(NodeId from) {
  me_.contact.complete(from);
  connected();
}

void Meeting::wake() {
  if (me_.state() >= MemberState::kFinished) return;
  for (const NodeId peer : me_.contact.overdue(me_.now(), me_.liveness.timeout()))
    if (me_.peers.is_member(peer)) departure_.miss(peer, me_.unreached(peer, kOnlySmallMessages));
}

// ---- the measurement

void Meeting::measure(const Measure& order) {
  if (me_.state() != MemberState::kPreparing || probe_) return;
  learn(order.view, order.roster);
  const NodeId to{Role::kWorker, static_cast<uint16_t>(order.to)};
  const NodeId from{Role::kWorker, static_cast<uint16_t>(order.from)};
  if (!me_.peers.is_member(to) || !me_.peers.is_member(from) || to.rank == me_.rank() ||
      from.rank == me_.rank())
    return departure_.coordinator_lost(
        "it requested a link measurement with nodes that are not peers of this node");
  probe_.emplace(LinkProbe::Options{.view = me_.view(), .to = to, .from = from}, me_.peers,
                 [this](const LinkRate& rate) { me_.coordinator.tell(Measured{rate}); });
  for (const NodeId peer : std::set{to, from})
    if (peer.rank < me_.rank()) me_.peers.call(peer, me_.self());
  say_met_when_complete();
}

void Meeting::say_met_when_complete() {
  if (!probe_ || met_) return;
  if (!has_contact({probe_->options().to, probe_->options().from})) return;
  met_ = true;
  me_.coordinator.tell(Met{});
}

void Meeting::probe() {
  if (met_) probe_->begin();
}

// ---- the plan

void Meeting::take_plan(const Planned& planned) {
  if (me_.state() == MemberState::kSuspecting) {
    learn(planned.view, planned.roster);
    return departure_.report_again();
  }
  if (me_.state() != MemberState::kPreparing && me_.state() != MemberState::kRegrouping) return;
  if (!prepared_)
    return departure_.coordinator_lost("it sent a plan before this node was prepared");
  me_.enter(MemberState::kConnecting);
  digest_.reset();
  meets_workers_ = false;
  learn(planned.view, planned.roster);
  connect_to_peers();
  me_.host.planned(planned);
}

void Meeting::ready(const std::vector<int64_t>& digest, bool meets_workers) {
  if (me_.state() != MemberState::kConnecting) return;
  digest_ = digest;
  meets_workers_ = meets_workers;
  me_.peers.expect_until(me_.now() + me_.liveness.timeout());
  connect_to_peers();
  say_ready_when_complete();
}

/// Whether this node and `peer` exchange frames.
bool Meeting::expects(NodeId peer) const {
  if (peer == me_.node() || peer.role == Role::kCoordinator) return false;
  if (me_.options.role == Role::kServer) return peer.role == Role::kWorker;
  return peer.role == Role::kServer || meets_workers_;
}

/// Workers call servers. Of two workers, the one with the higher rank calls. Servers are called as
/// soon as the plan is there, so a closed port is found before nets are built.
void Meeting::connect_to_peers() {
  if (me_.options.role == Role::kServer) return;
  const auto is_called = [this](NodeId peer) {
    return expects(peer) && (peer.role == Role::kServer || peer.rank < me_.rank());
  };
  for (const NodeId peer : me_.peers.members(is_called)) me_.peers.call(peer, me_.self());
}

bool Meeting::has_contact(const std::vector<NodeId>& peers) const {
  return std::ranges::all_of(peers, [this](NodeId peer) {
    return me_.peers.is_connected(peer) && !me_.contact.is_missing(peer);
  });
}

void Meeting::say_ready_when_complete() {
  if (me_.state() != MemberState::kConnecting || !digest_) return;
  if (!has_contact(me_.peers.members([this](NodeId peer) { return expects(peer); }))) return;
  me_.enter(MemberState::kReady);
  me_.coordinator.tell(Ready{*digest_});
}

}  // namespace poseidon::comm
