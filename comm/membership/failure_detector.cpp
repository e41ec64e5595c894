#include "comm/membership/failure_detector.h"

#include <algorithm>
#include <utility>

#include "comm/wire/address.h"
#include "comm/wire/mutation.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// Limit on the failures of one member before there is a plan.
constexpr int kMaxAttempts = 3;
}  // namespace

void FailureDetector::node_failed(const MemberRecord& member, const std::string& why, Time grace) {
  const NodeFailure failure =
      job_.failure_of(member, NodeFailure::Kind::kPeer,
                      job_.failure_reason(member.sent_proof, member.progress_at, why));
  job_.liveness.remove(member.connection);
  if (job_.state() >= CoordinatorState::kFailing || job_.state() == CoordinatorState::kConcluding)
    return job_shutdown_.node_failed(failure.who);
  reconfiguration_.forget(member, failure.why);
  if (job_.state() == CoordinatorState::kReconfiguring) return declare_failed(failure);
  if (job_.state() > CoordinatorState::kFetching || !job_.options.replaces_members)
    return suspect(failure, grace);
  await_replacement(failure);
}

/// Returns to kGathering, so that another node can replace the failed member. A member that fails
/// kMaxAttempts times ends the job. While the job gathers members, a failure counts only if large
/// messages did not pass.
void FailureDetector::await_replacement(NodeFailure failure) {
  const bool counts =
      job_.state() >= CoordinatorState::kPreparing || failure.why.ends_with(kOnlySmallMessages);
  const int attempts = counts
                           ? attempts_.note(name_of(failure.who) + " " + host_of(failure.address),
                                            failure.why, job_.now(), Time{0})
                           : 0;
  job_.enter(CoordinatorState::kGathering);
  if (attempts < kMaxAttempts)
    return job_.host.observer.refused(failure.address,
                                      "the node left before the job began: " + failure.why);
  failure.why = text("it failed in ", attempts, " attempts to prepare the job: ", failure.why);
  declare_failed(failure);
}

/// Waits for reports about the failure during `grace`, so that NodeFailure::awaited can name the
/// awaited data. The nodes that await data from the failed node notice the failure at about the
/// same time. While the job prepares or connects, no node awaits data, so the failure is declared
/// at once.
void FailureDetector::suspect(const NodeFailure& failure, Time grace) {
  if (job_.state() < CoordinatorState::kRunning) return declare_failed(failure);
  detected_failures_.push_back(failure);
  collect_until(job_.now() + grace);
  if (!suspicion_.awaited_from(detected_failures_[0].who).empty()) resolve();
}

void FailureDetector::receive_report(const MemberRecord& by, const NodeFailure& report) {
  if (report.kind == NodeFailure::Kind::kLeft && job_.state() <= CoordinatorState::kFetching)
    return node_failed(by, report.why, Time{0});
  if (job_.state() == CoordinatorState::kConcluding) return;
  // A node that reports its own failure has certainly failed. No other reports are collected.
  const bool is_of_another =
      report.kind == NodeFailure::Kind::kPeer || report.kind == NodeFailure::Kind::kUnreached;
  if (!is_of_another || report.who == by.node) return declare_failed(report);
  // In a reconfiguration all members disconnect from their peers, so a closed connection is no
  // failure.
  if (job_.state() < CoordinatorState::kReconfiguring) collect(by, report);
}

/// Adds a report about another member. If the coordinator itself has detected a failure, one report
/// that names the awaited item ends the wait. The coordinator also detects the failures of further
/// nodes itself. It needs no more time than the members, because all nodes receive heartbeats at
/// the same rate.
void FailureDetector::collect(const MemberRecord& by, const NodeFailure& report) {
  if (!has_failed(report.who) && !job_.members.contains(report.who)) return;
  suspicion_.add(by.node, report, by.address);
  if (mutated(Mutation::kFirstReport)) return reconfigure_or_fail({report});
  if (detected_failures_.empty())
    collect_until(job_.now() + 2 * job_.options.timeout / 5);
  else if (!suspicion_.awaited_from(detected_failures_[0].who).empty())
    resolve();
}

/// Collects reports until `until`, in kSuspecting. If already in kSuspecting, keeps the earlier
/// deadline.
void FailureDetector::collect_until(Time until) {
  if (job_.state() == CoordinatorState::kSuspecting) {
    until_ = std::min(until_, until);
  } else {
    job_.enter(CoordinatorState::kSuspecting);
    until_ = until;
  }
  job_.transport.wake_at(until_);
}

bool FailureDetector::has_failed(NodeId node) const {
  return std::ranges::find(detected_failures_, node, &NodeFailure::who) != detected_failures_.end();
}

/// Ends the collection of reports, and decides which nodes have failed. If the coordinator has
/// detected a failure, drops the reports about other nodes, because this failure may explain them.
/// If it does not explain them, the members report again in the next view.
void FailureDetector::resolve() {
  std::vector<NodeFailure> failures = std::exchange(detected_failures_, {});
  const Suspicion suspicion = std::exchange(suspicion_, {});
  for (NodeFailure& failure : failures) failure.awaited = suspicion.awaited_from(failure.who);
  if (failures.empty()) failures = failures_by(suspicion);
  reconfigure_or_fail(std::move(failures));
}

std::vector<NodeFailure> FailureDetector::failures_by(const Suspicion& suspicion) const {
  std::vector<NodeFailure> failures;
  const auto can_continue = [this](const std::vector<NodeId>& nodes) {
    return reconfiguration_.can_continue_without(nodes);
  };
  const auto is_established = [this](NodeId node) { return job_.members.find(node)->has_values; };
  for (const NodeId node : suspicion.minimal_failed_set(can_continue, is_established)) {
    failures.push_back(suspicion.failure_of(node, is_established(node)));
    failures.back().address = job_.members.find(node)->address;
  }
  return failures;
}

void FailureDetector::declare_failed(std::vector<NodeFailure> failures) {
  for (NodeFailure& failure : std::exchange(detected_failures_, {}))
    failures.push_back(std::move(failure));
  suspicion_ = {};
  reconfigure_or_fail(std::move(failures));
}

void FailureDetector::fail(NodeFailure failure) {
  failure.why += reconfiguration_.why_it_ends(failure);
  job_shutdown_.fail(failure);
}

/// Reconfigures the job without the failed nodes if possible; otherwise the job fails. A failure
/// that names no step, or comes before the first step, gets the step that the coordinator knows.
void FailureDetector::reconfigure_or_fail(std::vector<NodeFailure> failures) {
  for (NodeFailure& failure : failures)
    if (failure.step == 0 || !job_.has_begun()) failure.step = job_.step_under_way();
  if (reconfiguration_.can_continue_after(failures))
    reconfiguration_.begin(failures);
  else
    fail(failures[0]);
}

}  // namespace poseidon::comm
