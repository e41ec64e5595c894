#include "comm/membership/departure.h"

#include "comm/wire/mutation.h"

namespace poseidon::comm {

void Departure::finished(int64_t step) {
  // A server may suspect a worker that ended because all workers were done.
  if (me_.state() != MemberState::kRunning && me_.state() != MemberState::kSuspecting) return;
  me_.enter(MemberState::kFinished);
  // Sent after the last checkpoint, because a finished member may be dismissed.
  me_.coordinator.tell_after_bulk(Finished{step});
}

void Departure::suspect(NodeId peer, const std::string& why) {
  if (me_.state() < MemberState::kFinished) accuse(me_.loss_of(peer, why));
}

void Departure::miss(NodeId peer, const NodeFailure& loss) {
  if (me_.state() < MemberState::kFinished) accuse(loss);
  if (me_.state() != MemberState::kSuspecting) return;
  for (const auto& [other, why] : me_.peers.not_reached())
    if (other != peer) me_.coordinator.tell(Lost{me_.unreached(other, why)});
}

void Departure::report_error(const std::string& why) {
  if (me_.state() < MemberState::kSuspecting) accuse(me_.own_loss(NodeFailure::Kind::kError, why));
}

void Departure::leave(const std::string& why) {
  leaves_by_ = why;
  if (me_.state() >= MemberState::kFinished) return;
  const NodeFailure loss = me_.own_loss(NodeFailure::Kind::kLeft, why);
  // While there is a job, this node's state may be the state to save.
  if (me_.state() >= MemberState::kRegrouping) return accuse(loss);
  if (me_.state() == MemberState::kPreparing) me_.coordinator.tell(Lost{loss});
  dismissed();
}

/// The coordinator receives all reports and decides on one. A node that is only cut off, or that
/// ends because of another node's failure, must not be named as the cause.
void Departure::accuse(const NodeFailure& loss) {
  accusation_ = loss;
  if (!me_.coordinator.is_open()) return fail(me_.decided(loss));
  me_.enter(MemberState::kSuspecting);
  me_.coordinator.tell(Lost{loss});
  verdict_until_ = me_.now() + me_.liveness.timeout();
  me_.transport.wake_at(verdict_until_);
}

void Departure::wake() {
  if (me_.state() == MemberState::kSuspecting && me_.now() >= verdict_until_)
    fail(me_.decided(accusation_));
}

void Departure::coordinator_lost(const std::string& why) {
  me_.coordinator.lost();
  if (me_.state() == MemberState::kEnded) return;
  if (me_.state() == MemberState::kFailing) return dismissed();
  fail(me_.loss_of(NodeId{}, why));
}

void Departure::regroup(const NodeFailure& loss) {
  if (me_.state() < MemberState::kConnecting || me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kRegrouping);
  me_.coordinator.drop_bulk();
  if (!mutated(Mutation::kStaysWithPeers)) me_.leave_view();
  me_.host.regroup(loss);
  // The coordinator may have discarded this node's earlier request when it handled the other
  // failure.
  if (!leaves_by_.empty()) leave(leaves_by_);
}

void Departure::report_again() {
  accusation_.who = me_.node();
  me_.coordinator.tell(Lost{accusation_});
}

void Departure::fail(const NodeFailure& loss) {
  if (me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kFailing);
  // Drops a checkpoint that is still queued: the coordinator may request another one, perhaps from
  // a survivor.
  me_.coordinator.drop_bulk();
  me_.host.failed(loss, !me_.coordinator.is_open());
}

void Departure::dismissed() {
  me_.end();
  me_.host.dismissed();
}

}  // namespace poseidon::comm
