#include "comm/membership/reconfiguration.h"

#include <algorithm>
#include <limits>

#include "comm/wire/address.h"
#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Limit on the divergences that return a job to the same checkpoint. The next divergence ends the
/// job, because each divergence costs all steps since the checkpoint.
constexpr int kMaxReturns = 3;

}  // namespace

bool Reconfiguration::can_continue_after(const std::vector<NodeFailure>& failures) const {
  std::vector<NodeId> nodes;
  for (const NodeFailure& failure : failures) {
    if (!others_are_free_of(failure)) return false;
    if (invalidates_others(failure) && !can_revert()) return false;
    nodes.push_back(failure.who);
  }
  return can_continue_without(nodes);
}

/// Before the first step, a job is not reconfigured: it has never worked, so its set-up may be
/// wrong.
bool Reconfiguration::is_possible() const {
  return job_.options.recovers && job_.has_begun() && job_.state() < CoordinatorState::kFailing;
}

bool Reconfiguration::can_continue_without(const std::vector<NodeId>& nodes) const {
  if (!is_possible()) return false;
  Survivors left = job_.survivors();
  for (const NodeId node : nodes) {
    if (node.role == Role::kCoordinator) return false;
    std::erase(node.role == Role::kWorker ? left.workers : left.servers, node.rank);
  }
  return left.workers.size() >= std::max<size_t>(job_.options.min_workers, 1) && has_values(left) &&
         job_.host.planner.can_continue(left);
}

/// Whether the failure concerns only the failed node. A local error is assumed to recur on the
/// other members. The exception is an error of a joiner before its first step, because the members
/// have passed that point. If no majority of the workers has equal values, the failure names the
/// coordinator, and can_continue_without() is false.
bool Reconfiguration::others_are_free_of(const NodeFailure& failure) const {
  if (failure.kind == NodeFailure::Kind::kError) return lacks_values(failure.who);
  return failure.kind != NodeFailure::Kind::kJoined;
}

/// Whether the failure makes the values of the other members wrong. A diverged replica has
/// contributed to sums, so it has changed the values of all members. A joiner has contributed
/// nothing yet.
bool Reconfiguration::invalidates_others(const NodeFailure& failure) const {
  return failure.kind == NodeFailure::Kind::kDiverged && !lacks_values(failure.who);
}

/// Whether, after this failure, no member can continue with its current values.
bool Reconfiguration::loses_values(const NodeFailure& failure) const {
  if (invalidates_others(failure) && !mutated(Mutation::kSpoiltValues)) return true;
  return job_.host.planner.needs_checkpoint() && !mutated(Mutation::kNoRestore);
}

bool Reconfiguration::can_revert() const {
  const int64_t saved = job_.host.planner.saved_step();
  return saved > 0 && (saved > returned_to_ || returns_ < kMaxReturns);
}

std::string Reconfiguration::why_it_ends(const NodeFailure& failure) const {
  if (failure.kind != NodeFailure::Kind::kDiverged || returns_ < kMaxReturns || can_revert())
    return "";
  return text("; ", returns_, " earlier divergences returned the job to step ", returned_to_,
              ", and it has reached no later checkpoint");
}

bool Reconfiguration::lacks_values(NodeId node) const {
  const MemberRecord* member = job_.members.find(node);
  return member != nullptr && !member->has_values;
}

/// Whether a remaining worker or a checkpoint has the values of the job, which joiners need.
bool Reconfiguration::has_values(const Survivors& left) const {
  return job_.restores || std::ranges::any_of(left.workers, [this](uint16_t rank) {
           return !lacks_values({Role::kWorker, rank});
         });
}

void Reconfiguration::begin(const std::vector<NodeFailure>& failures) {
  for (const NodeFailure& failure : failures) {
    job_.restores |= loses_values(failure);
    diverged_ |= invalidates_others(failure);
    evict(failure);
    job_.host.observer.reconfiguring(failure);
  }
  leave_view(failures[0]);
}

void Reconfiguration::admit_joiners(const NodeFailure& joined) {
  job_.host.observer.reconfiguring(joined);
  leave_view(joined);
}

/// Requests all members to leave the view, unless they were already asked. Drops values that are in
/// flight to joiners, because they are useless in the next view.
void Reconfiguration::leave_view(const NodeFailure& why) {
  if (job_.state() != CoordinatorState::kReconfiguring) {
    job_.enter(CoordinatorState::kReconfiguring);
    for (const auto& [node, member] : job_.members)
      if (!member.has_values) job_.transport.drop_bulk(member.connection);
    job_.members.broadcast(Regroup{why});
  }
  continue_when_all_left();
}

/// Removes a failed node. If the node still runs, it receives the reason for its removal. A node
/// that requested to leave then ends.
void Reconfiguration::evict(const NodeFailure& failure) {
  const MemberRecord* failed_member = job_.members.find(failure.who);
  if (failed_member == nullptr) return;
  job_.control.send_message(failed_member->connection, Failed{failure});
  job_.disconnect(failed_member->connection);
  if (failure.kind == NodeFailure::Kind::kDiverged) block_host(failed_member->address);
  forget(*failed_member, failure.message());
}

void Reconfiguration::block_host(const std::string& address) {
  job_.blocked_hosts.add(address);
  std::erase_if(job_.joiners, [this](const auto& entry) {
    const auto& [connection, joiner] = entry;
    if (!job_.blocked_hosts.contains(joiner.address)) return false;
    job_.control.send_message(connection, Refused{BlockedHosts::kWhy});
    job_.disconnect(connection);
    job_.host.observer.refused(joiner.address, BlockedHosts::kWhy);
    return true;
  });
}

void Reconfiguration::forget(const MemberRecord& failed_member, const std::string& why) {
  if (failed_member.is_worker() && job_.has_begun())
    reported_ = std::min(reported_, failed_member.step);
  if (!failed_member.has_values && job_.has_begun())
    job_.join_backoff.note(host_of(failed_member.address), why, job_.now(), job_.options.timeout);
  job_.members.remove(failed_member.node);
}

void Reconfiguration::left_view(MemberRecord& member, const LeftView& left) {
  member.left = left;
  if (job_.state() == CoordinatorState::kReconfiguring) continue_when_all_left();
}

void Reconfiguration::continue_when_all_left() {
  const auto has_left = [](const auto& entry) { return entry.second.left.has_value(); };
  if (!std::ranges::all_of(job_.members, has_left) &&
      !(mutated(Mutation::kNotAllLeft) && std::ranges::any_of(job_.members, has_left)))
    return;
  if (job_.restores && !restored_step_) return restore();
  const Survivors left = job_.survivors();
  const int64_t step = job_.restores ? *restored_step_ : step_for_all();
  restored_step_.reset();
  reported_ = std::numeric_limits<int64_t>::max();
  const std::vector<Joiner> joined = job_.begin_next_view(step);
  publish_(left, joined, step);
}

/// Requests the host to read the last checkpoint, unless it is already reading. The step of the
/// next view is known only afterwards, because the last checkpoint may be damaged.
void Reconfiguration::restore() {
  if (reading_) return;
  reading_ = true;
  job_.host.planner.restore();
}

void Reconfiguration::restored(int64_t step) {
  reading_ = false;
  if (job_.state() != CoordinatorState::kReconfiguring) return;
  restored_step_ = step;
  if (diverged_) returns_ = step > returned_to_ ? 1 : returns_ + 1;
  if (diverged_) returned_to_ = step;
  diverged_ = false;
  continue_when_all_left();
}

/// Returns the last step that all workers have completed. Returns the step before if a failed
/// worker has not reported this step and all workers can revert. The workers then compute the step
/// again, and all of them report it. They can revert if the failed worker had not begun the
/// following step. This is normally true, because a worker reports a step before it begins the next
/// one.
int64_t Reconfiguration::step_for_all() const {
  int64_t step = std::numeric_limits<int64_t>::max(), most = 0, least = 0;
  for (const auto& [node, member] : job_.members) {
    if (!member.is_worker() || !member.has_values || !member.left) continue;
    step = std::min(step, member.left->step);
    most = std::max(most, member.left->step);
    least = std::max(least, member.left->least);
  }
  if (mutated(Mutation::kFurthestStep)) return most;
  return std::min(step, std::max(reported_, least));
}

}  // namespace poseidon::comm
