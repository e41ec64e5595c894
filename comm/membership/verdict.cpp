#include "comm/membership/verdict.h"

#include <algorithm>
#include <utility>

#include "comm/wire/address.h"
#include "comm/wire/mutation.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// For one member, before there is a plan.
constexpr int kMostAttempts = 3;
}  // namespace

void Verdict::lose(const MemberRecord& member, const std::string& why, Time grace) {
  const NodeFailure loss =
      job_.loss_of(member, NodeFailure::Kind::kPeer,
                   job_.reason_of_loss(member.sent_proof, member.sign_at, why));
  job_.liveness.remove(member.connection);
  if (job_.state() >= CoordinatorState::kFailing || job_.state() == CoordinatorState::kConcluding)
    return ending_.lose(loss.who);
  regrouping_.forget(member, loss.why);
  if (job_.state() == CoordinatorState::kRegrouping) return accuse(loss);
  if (job_.state() > CoordinatorState::kFetching || !job_.options.replaces_members)
    return suspect(loss, grace);
  wait_again(loss);
}

/// Another node may replace a member that fails before there is a plan. A member that fails in
/// every attempt ends the job.
void Verdict::wait_again(NodeFailure loss) {
  const bool counts =
      job_.state() >= CoordinatorState::kPreparing || loss.why.ends_with(kOnlySmallMessages);
  const int attempts = counts ? attempts_.note(name_of(loss.who) + " " + host_of(loss.address),
                                               loss.why, job_.now(), Time{0})
                              : 0;
  job_.enter(CoordinatorState::kGathering);
  if (attempts < kMostAttempts)
    return job_.host.observer.refused(loss.address,
                                      "the node left before the job began: " + loss.why);
  loss.why = text("it failed in ", attempts, " attempts to prepare the job: ", loss.why);
  accuse(loss);
}

/// A node has failed. The nodes that waited for it notice this at about the same time. Their
/// reports are collected for a moment, so that the message can state what they waited for.
void Verdict::suspect(const NodeFailure& loss, Time grace) {
  if (job_.state() < CoordinatorState::kRunning) return accuse(loss);
  lost_.push_back(loss);
  listen_until(job_.now() + grace);
  if (!suspicion_.awaited_from(lost_[0].who).empty()) decide();
}

void Verdict::hear(const MemberRecord& by, const NodeFailure& accusation) {
  if (accusation.kind == NodeFailure::Kind::kLeft && job_.state() <= CoordinatorState::kFetching)
    return lose(by, accusation.why, Time{0});
  if (job_.state() == CoordinatorState::kConcluding) return;
  // A node that reports its own failure is believed.
  const bool is_of_another = accusation.kind == NodeFailure::Kind::kPeer ||
                             accusation.kind == NodeFailure::Kind::kUnreached;
  if (!is_of_another || accusation.who == by.node) return accuse(accusation);
  // A node that leaves its peers has not failed.
  if (job_.state() < CoordinatorState::kRegrouping) collect(by, accusation);
}

/// For a node that the coordinator has detected as failed, one report of what was awaited from it
/// is enough. If another reported node has failed too, the coordinator will detect that: its
/// heartbeats are as frequent as the others'.
void Verdict::collect(const MemberRecord& by, const NodeFailure& accusation) {
  if (!is_lost(accusation.who) && !job_.members.contains(accusation.who)) return;
  suspicion_.add(by.node, accusation, by.address);
  if (mutated(Mutation::kFirstReport)) return end_by({accusation});
  if (lost_.empty())
    listen_until(job_.now() + 2 * job_.options.timeout / 5);
  else if (!suspicion_.awaited_from(lost_[0].who).empty())
    decide();
}

/// If already in kSuspecting, keeps the earlier deadline.
void Verdict::listen_until(Time until) {
  if (job_.state() == CoordinatorState::kSuspecting) {
    until_ = std::min(until_, until);
  } else {
    job_.enter(CoordinatorState::kSuspecting);
    until_ = until;
  }
  job_.transport.wake_at(until_);
}

bool Verdict::is_lost(NodeId node) const {
  return std::ranges::find(lost_, node, &NodeFailure::who) != lost_.end();
}

/// A failure that the coordinator has detected may explain the missing connections of others. If it
/// does not, they report again in the next view.
void Verdict::decide() {
  std::vector<NodeFailure> losses = std::exchange(lost_, {});
  const Suspicion suspicion = std::exchange(suspicion_, {});
  for (NodeFailure& loss : losses) loss.awaited = suspicion.awaited_from(loss.who);
  if (losses.empty()) losses = losses_by(suspicion);
  end_by(std::move(losses));
}

std::vector<NodeFailure> Verdict::losses_by(const Suspicion& suspicion) const {
  std::vector<NodeFailure> losses;
  const auto can_go_on = [this](const std::vector<NodeId>& nodes) {
    return regrouping_.can_go_on_without(nodes);
  };
  const auto is_established = [this](NodeId node) { return job_.members.find(node)->has_values; };
  for (const NodeId node : suspicion.smallest_explanation(can_go_on, is_established)) {
    losses.push_back(suspicion.loss_of(node, is_established(node)));
    losses.back().address = job_.members.find(node)->address;
  }
  return losses;
}

void Verdict::accuse(std::vector<NodeFailure> losses) {
  for (NodeFailure& loss : std::exchange(lost_, {})) losses.push_back(std::move(loss));
  suspicion_ = {};
  end_by(std::move(losses));
}

void Verdict::fail(NodeFailure loss) {
  loss.why += regrouping_.why_it_ends(loss);
  ending_.fail(loss);
}

/// The coordinator knows the step best; a reporting member knows what it awaited.
void Verdict::end_by(std::vector<NodeFailure> losses) {
  for (NodeFailure& loss : losses)
    if (loss.step == 0 || !job_.has_begun()) loss.step = job_.step_under_way();
  if (regrouping_.can_go_on_after(losses))
    regrouping_.begin(losses);
  else
    fail(losses[0]);
}

}  // namespace poseidon::comm
