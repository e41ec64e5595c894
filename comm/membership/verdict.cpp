#include "comm/membership/verdict.h"

#include <utility>

namespace poseidon::comm {

namespace {

/// Whether an accusation says more than that a connection has ended.
bool says_more(const Loss& accusation) {
  return accusation.kind != Loss::Kind::kPeer || !accusation.awaited.empty();
}

}  // namespace

void Verdict::lose(const MemberRecord& member, const std::string& why, Time grace) {
  const Loss loss = job_.loss_of(member, Loss::Kind::kPeer, why);
  job_.liveness.remove(member.connection);
  if (job_.state() >= CoordinatorState::kFailing || job_.state() == CoordinatorState::kConcluding)
    return ending_.lose(loss.who);
  regrouping_.forget(member);
  if (job_.state() == CoordinatorState::kRegrouping) return accuse(loss);
  if (job_.state() == CoordinatorState::kSuspecting) {
    if (loss.who != suspected_.who) lost_beside_.push_back(loss);
    return;
  }
  if (job_.state() > CoordinatorState::kFetching || !job_.options.replaces_members)
    return suspect(loss, grace);
  job_.enter(CoordinatorState::kGathering);
  job_.host.observer.refused(loss.address, "it left before the job began: " + why);
}

/// A node is gone. Those who waited for it notice at about the same time: for a moment they are
/// listened to, so that the message can say what they waited for.
void Verdict::suspect(const Loss& loss, Time grace) {
  if (job_.state() >= CoordinatorState::kSuspecting) return;
  if (job_.state() < CoordinatorState::kRunning) return accuse(loss);
  job_.enter(CoordinatorState::kSuspecting);
  suspected_ = loss;
  grace_ = grace;
  job_.transport.wake_at(job_.now() + grace_);
}

void Verdict::hear(const Loss& accusation) {
  if (job_.state() == CoordinatorState::kConcluding) return;
  if (job_.state() == CoordinatorState::kSuspecting) return hear_of_suspected(accusation);
  // Who leaves its peers is not lost.
  if (job_.state() == CoordinatorState::kRegrouping && accusation.kind == Loss::Kind::kPeer) return;
  if (says_more(accusation)) return accuse(accusation);
  suspect(accusation, job_.options.timeout / 10);
}

void Verdict::accuse(const Loss& loss) {
  const std::vector<Loss> beside = std::exchange(lost_beside_, {});
  if (!regrouping_.can_go_on_after(loss)) return ending_.fail(with_step(loss));
  regrouping_.begin(with_step(loss));
  for (const Loss& each : beside) job_.host.observer.regrouping(with_step(each));
}

void Verdict::hear_of_suspected(const Loss& accusation) {
  if (accusation.who != suspected_.who || !says_more(accusation)) return;
  if (accusation.kind != Loss::Kind::kPeer) return accuse(accusation);
  // What was seen first is the cause: who is given up for its silence is cut off then, and others
  // see just that.
  Loss loss = suspected_;
  loss.step = accusation.step;
  loss.awaited = accusation.awaited;
  accuse(loss);
}

/// The coordinator knows the step best; an accuser knows what it waited for.
Loss Verdict::with_step(Loss loss) const {
  if (loss.step == 0) loss.step = job_.step_under_way();
  return loss;
}

}  // namespace poseidon::comm
