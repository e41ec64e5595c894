#include "comm/membership/member_shutdown.h"

#include "comm/wire/mutation.h"

namespace poseidon::comm {

void MemberShutdown::finished(int64_t step) {
  // A server may suspect a worker that ended because all workers were done.
  if (me_.state() != MemberState::kRunning && me_.state() != MemberState::kSuspecting) return;
  me_.enter(MemberState::kFinished);
  // Sent after the last checkpoint, because the coordinator may dismiss a finished member.
  me_.coordinator.send_message_after_bulk(Finished{step});
}

void MemberShutdown::suspect(NodeId peer, const std::string& why) {
  if (me_.state() < MemberState::kFinished) report(me_.failure_of(peer, why));
}

void MemberShutdown::report_missing(NodeId peer, const NodeFailure& failure) {
  if (me_.state() < MemberState::kFinished) report(failure);
  if (me_.state() != MemberState::kSuspecting) return;
  for (const auto& [other, why] : me_.peers.unreached_members())
    if (other != peer) me_.coordinator.send_message(Lost{me_.unreached(other, why)});
}

void MemberShutdown::report_error(const std::string& why) {
  if (me_.state() < MemberState::kSuspecting)
    report(me_.own_failure(NodeFailure::Kind::kError, why));
}

void MemberShutdown::leave(const std::string& why) {
  leave_reason_ = why;
  if (me_.state() >= MemberState::kFinished) return;
  const NodeFailure failure = me_.own_failure(NodeFailure::Kind::kLeft, why);
  // From the first plan on, the job may need a checkpoint of this node's values, so the node does
  // not end yet.
  if (me_.state() >= MemberState::kReconfiguring) return report(failure);
  if (me_.state() == MemberState::kPreparing) me_.coordinator.send_message(Lost{failure});
  dismissed();
}

/// Reports a failure to the coordinator, which receives all reports and decides which node has
/// failed. So a node that is only cut off, or that ends because of another node's failure, is not
/// named as the cause. Without a connection to the coordinator, this node handles the failure as
/// that of the job.
void MemberShutdown::report(const NodeFailure& failure) {
  reported_failure_ = failure;
  if (!me_.coordinator.is_open()) return fail(me_.decided(failure));
  me_.enter(MemberState::kSuspecting);
  me_.coordinator.send_message(Lost{failure});
  decision_deadline_ = me_.now() + me_.liveness.timeout();
  me_.transport.wake_at(decision_deadline_);
}

void MemberShutdown::wake() {
  if (me_.state() == MemberState::kSuspecting && me_.now() >= decision_deadline_)
    fail(me_.decided(reported_failure_));
}

void MemberShutdown::coordinator_failed(const std::string& why) {
  me_.coordinator.disconnected();
  if (me_.state() == MemberState::kEnded) return;
  if (me_.state() == MemberState::kFailing) return dismissed();
  fail(me_.failure_of(NodeId{}, why));
}

void MemberShutdown::reconfigure(const NodeFailure& failure) {
  if (me_.state() < MemberState::kConnecting || me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kReconfiguring);
  me_.coordinator.drop_bulk();
  if (!mutated(Mutation::kStaysWithPeers)) me_.leave_view();
  me_.host.reconfigure(failure);
  // The coordinator may have discarded this node's earlier request to leave when it handled
  // `failure`.
  if (!leave_reason_.empty()) leave(leave_reason_);
}

void MemberShutdown::report_again() {
  reported_failure_.who = me_.node();
  me_.coordinator.send_message(Lost{reported_failure_});
}

void MemberShutdown::fail(const NodeFailure& failure) {
  if (me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kFailing);
  // Drops a checkpoint that is still queued: the coordinator may request another one, perhaps from
  // a survivor.
  me_.coordinator.drop_bulk();
  me_.host.failed(failure, !me_.coordinator.is_open());
}

void MemberShutdown::dismissed() {
  me_.end();
  me_.host.dismissed();
}

}  // namespace poseidon::comm
