#include "comm/membership/departure.h"

#include "comm/wire/mutation.h"

namespace poseidon::comm {

void Departure::finished(int64_t step) {
  // A server may suspect a worker that ended when all of them were done.
  if (me_.state() != MemberState::kRunning && me_.state() != MemberState::kSuspecting) return;
  me_.enter(MemberState::kFinished);
  // Behind the last checkpoint: whoever is done may be let go.
  me_.coordinator.tell_after_bulk(Finished{step});
}

void Departure::suspect(NodeId peer, const std::string& why) {
  if (me_.state() < MemberState::kFinished) accuse(me_.loss_of(peer, why));
}

void Departure::miss(NodeId peer, const Loss& loss) {
  if (me_.state() < MemberState::kFinished) accuse(loss);
  if (me_.state() != MemberState::kSuspecting) return;
  for (const auto& [other, why] : me_.peers.not_reached())
    if (other != peer) me_.coordinator.tell(Lost{me_.unreached(other, why)});
}

void Departure::report_error(const std::string& why) {
  if (me_.state() < MemberState::kSuspecting) accuse(me_.own_loss(Loss::Kind::kError, why));
}

void Departure::leave(const std::string& why) {
  leaves_by_ = why;
  if (me_.state() >= MemberState::kFinished) return;
  const Loss loss = me_.own_loss(Loss::Kind::kLeft, why);
  // As long as there is a job its state may be what is saved.
  if (me_.state() >= MemberState::kRegrouping) return accuse(loss);
  if (me_.state() == MemberState::kPreparing) me_.coordinator.tell(Lost{loss});
  dismissed();
}

/// The coordinator hears all accusations and decides on one: a node that is only cut off, or that
/// ends because of another's loss, is not to be named.
void Departure::accuse(const Loss& loss) {
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

void Departure::regroup(const Loss& loss) {
  if (me_.state() < MemberState::kConnecting || me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kRegrouping);
  me_.coordinator.drop_bulk();
  if (!mutated(Mutation::kStaysWithPeers)) me_.leave_view();
  me_.host.regroup(loss);
  // What it has said of this may have been lost among what was said of the other.
  if (!leaves_by_.empty()) leave(leaves_by_);
}

void Departure::report_again() {
  accusation_.who = me_.node();
  me_.coordinator.tell(Lost{accusation_});
}

void Departure::fail(const Loss& loss) {
  if (me_.state() >= MemberState::kFailing) return;
  me_.enter(MemberState::kFailing);
  // A checkpoint that is still on its way: another one may be asked for, perhaps of a survivor.
  me_.coordinator.drop_bulk();
  me_.host.failed(loss, !me_.coordinator.is_open());
}

void Departure::dismissed() {
  me_.end();
  me_.host.dismissed();
}

}  // namespace poseidon::comm
