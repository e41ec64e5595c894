#include "comm/membership/member_setup.h"

#include <algorithm>
#include <set>

#include "comm/wire/reachability.h"

namespace poseidon::comm {

void MemberSetup::prepared(const std::vector<Fact>& facts) {
  prepared_ = true;
  me_.coordinator.send_message(Prepared{facts});
}

void MemberSetup::learn(int64_t view, const std::vector<RosterEntry>& roster) {
  me_.learn(view, roster);
  me_.peers.expect_until(me_.now() + me_.liveness.timeout());
}

void MemberSetup::connected() {
  report_met_when_complete();
  report_ready_when_complete();
}

void MemberSetup::proof_arrived(NodeId from) {
  me_.mtu_check.complete(from);
  connected();
}

void MemberSetup::wake() {
  if (me_.state() >= MemberState::kFinished) return;
  for (const NodeId peer : me_.mtu_check.overdue(me_.now(), me_.liveness.timeout()))
    if (me_.peers.is_member(peer))
      shutdown_.report_missing(peer, me_.unreached(peer, kOnlySmallMessages));
}

// ---- the measurement

void MemberSetup::measure(const Measure& order) {
  if (me_.state() != MemberState::kPreparing || probe_) return;
  learn(order.view, order.roster);
  const NodeId to{Role::kWorker, static_cast<uint16_t>(order.to)};
  const NodeId from{Role::kWorker, static_cast<uint16_t>(order.from)};
  if (!me_.peers.is_member(to) || !me_.peers.is_member(from) || to.rank == me_.rank() ||
      from.rank == me_.rank())
    return shutdown_.coordinator_failed(
        "it requested a link measurement with nodes that are not peers of this node");
  probe_.emplace(LinkProbe::Options{.view = me_.view(), .to = to, .from = from}, me_.peers,
                 [this](const LinkRate& rate) { me_.coordinator.send_message(Measured{rate}); });
  for (const NodeId peer : std::set{to, from})
    if (peer.rank < me_.rank()) me_.peers.call(peer, me_.self());
  report_met_when_complete();
}

void MemberSetup::report_met_when_complete() {
  if (!probe_ || met_) return;
  if (!has_passed_mtu_check({probe_->options().to, probe_->options().from})) return;
  met_ = true;
  me_.coordinator.send_message(Met{});
}

void MemberSetup::probe() {
  if (met_) probe_->begin();
}

// ---- the plan

void MemberSetup::apply_plan(const Planned& planned) {
  if (me_.state() == MemberState::kSuspecting) {
    learn(planned.view, planned.roster);
    return shutdown_.report_again();
  }
  if (me_.state() != MemberState::kPreparing && me_.state() != MemberState::kReconfiguring) return;
  if (!prepared_)
    return shutdown_.coordinator_failed("it sent a plan before this node was prepared");
  me_.enter(MemberState::kConnecting);
  digest_.reset();
  meets_workers_ = false;
  learn(planned.view, planned.roster);
  connect_to_peers();
  me_.host.planned(planned);
}

void MemberSetup::ready(const std::vector<int64_t>& digest, bool meets_workers) {
  if (me_.state() != MemberState::kConnecting) return;
  digest_ = digest;
  meets_workers_ = meets_workers;
  me_.peers.expect_until(me_.now() + me_.liveness.timeout());
  connect_to_peers();
  report_ready_when_complete();
}

/// Whether this node and `peer` exchange frames.
bool MemberSetup::expects(NodeId peer) const {
  if (peer == me_.node() || peer.role == Role::kCoordinator) return false;
  if (me_.options.role == Role::kServer) return peer.role == Role::kWorker;
  return peer.role == Role::kServer || meets_workers_;
}

/// Workers call servers, and a worker calls the workers with lower ranks. Servers are called as
/// soon as the plan has arrived, so a closed port is found before nets are built.
void MemberSetup::connect_to_peers() {
  if (me_.options.role == Role::kServer) return;
  const auto is_called = [this](NodeId peer) {
    return expects(peer) && (peer.role == Role::kServer || peer.rank < me_.rank());
  };
  for (const NodeId peer : me_.peers.members(is_called)) me_.peers.call(peer, me_.self());
}

bool MemberSetup::has_passed_mtu_check(const std::vector<NodeId>& peers) const {
  return std::ranges::all_of(peers, [this](NodeId peer) {
    return me_.peers.is_connected(peer) && !me_.mtu_check.is_missing(peer);
  });
}

void MemberSetup::report_ready_when_complete() {
  if (me_.state() != MemberState::kConnecting || !digest_) return;
  if (!has_passed_mtu_check(me_.peers.members([this](NodeId peer) { return expects(peer); })))
    return;
  me_.enter(MemberState::kReady);
  me_.coordinator.send_message(Ready{*digest_});
}

}  // namespace poseidon::comm
