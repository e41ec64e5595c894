#include "comm/membership/regrouping.h"

#include <algorithm>
#include <limits>

#include "comm/wire/address.h"
#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Divergences that may return a job to the same checkpoint. A later one ends the job, because each
/// costs all steps since the checkpoint.
constexpr int kMostReturns = 3;

}  // namespace

bool Regrouping::can_go_on_after(const std::vector<NodeFailure>& losses) const {
  std::vector<NodeId> nodes;
  for (const NodeFailure& loss : losses) {
    if (!others_are_free_of(loss)) return false;
    if (spoils_others(loss) && !may_go_back()) return false;
    nodes.push_back(loss.who);
  }
  return can_go_on_without(nodes);
}

/// A job in which a member fails before the first step has never worked, so its set-up is wrong.
bool Regrouping::is_possible() const {
  return job_.options.recovers && job_.has_begun() && job_.state() < CoordinatorState::kFailing;
}

bool Regrouping::can_go_on_without(const std::vector<NodeId>& nodes) const {
  if (!is_possible()) return false;
  Survivors left = job_.survivors();
  for (const NodeId node : nodes) {
    if (node.role == Role::kCoordinator) return false;
    std::erase(node.role == Role::kWorker ? left.workers : left.servers, node.rank);
  }
  return left.workers.size() >= std::max<size_t>(job_.options.min_workers, 1) && has_values(left) &&
         job_.host.planner.can_go_on(left);
}

/// An error would recur on the other members. But an error of a joiner before its first step would
/// not, because the members have passed that point. If no majority of the initial values agrees,
/// the failure names the coordinator, and can_go_on_without() is false.
bool Regrouping::others_are_free_of(const NodeFailure& loss) const {
  if (loss.kind == NodeFailure::Kind::kError) return lacks_values(loss.who);
  return loss.kind != NodeFailure::Kind::kJoined;
}

/// A diverged replica has contributed to sums, so it has changed the values of all members. A
/// joiner has contributed nothing yet.
bool Regrouping::spoils_others(const NodeFailure& loss) const {
  return loss.kind == NodeFailure::Kind::kDrift && !lacks_values(loss.who);
}

/// Whether no member can continue with the current values.
bool Regrouping::loses_values(const NodeFailure& loss) const {
  if (spoils_others(loss) && !mutated(Mutation::kSpoiltValues)) return true;
  return job_.host.planner.needs_checkpoint() && !mutated(Mutation::kNoRestore);
}

bool Regrouping::may_go_back() const {
  const int64_t saved = job_.host.planner.saved_step();
  return saved > 0 && (saved > returned_to_ || returns_ < kMostReturns);
}

std::string Regrouping::why_it_ends(const NodeFailure& loss) const {
  if (loss.kind != NodeFailure::Kind::kDrift || returns_ < kMostReturns || may_go_back()) return "";
  return text("; ", returns_, " earlier divergences returned the job to step ", returned_to_,
              ", and it has reached no later checkpoint");
}

bool Regrouping::lacks_values(NodeId node) const {
  const MemberRecord* member = job_.members.find(node);
  return member != nullptr && !member->has_values;
}

/// Whether a remaining worker, or a checkpoint, has the values that joiners wait for.
bool Regrouping::has_values(const Survivors& left) const {
  return job_.restores || std::ranges::any_of(left.workers, [this](uint16_t rank) {
           return !lacks_values({Role::kWorker, rank});
         });
}

void Regrouping::begin(const std::vector<NodeFailure>& losses) {
  for (const NodeFailure& loss : losses) {
    job_.restores |= loses_values(loss);
    spoilt_ |= spoils_others(loss);
    evict(loss);
    job_.host.observer.regrouping(loss);
  }
  leave_view(losses[0]);
}

void Regrouping::let_in(const NodeFailure& joined) {
  job_.host.observer.regrouping(joined);
  leave_view(joined);
}

/// Values that are in flight to joiners are dropped, because they are useless now.
void Regrouping::leave_view(const NodeFailure& why) {
  if (job_.state() != CoordinatorState::kRegrouping) {
    job_.enter(CoordinatorState::kRegrouping);
    for (const auto& [node, member] : job_.members)
      if (!member.has_values) job_.transport.drop_bulk(member.connection);
    job_.members.tell_all(Regroup{why});
  }
  go_on_when_all_left();
}

/// If the node still runs, it receives the reason for its removal. A node that requested to leave
/// may go.
void Regrouping::evict(const NodeFailure& loss) {
  const MemberRecord* lost = job_.members.find(loss.who);
  if (lost == nullptr) return;
  job_.control.tell(lost->connection, Failed{loss});
  job_.disconnect(lost->connection);
  if (loss.kind == NodeFailure::Kind::kDrift) bar_host(lost->address);
  forget(*lost, loss.message());
}

void Regrouping::bar_host(const std::string& address) {
  job_.barred.add(address);
  std::erase_if(job_.newcomers, [this](const auto& entry) {
    const auto& [connection, newcomer] = entry;
    if (!job_.barred.contains(newcomer.address)) return false;
    job_.control.tell(connection, Refused{BarredHosts::kWhy});
    job_.disconnect(connection);
    job_.host.observer.refused(newcomer.address, BarredHosts::kWhy);
    return true;
  });
}

void Regrouping::forget(const MemberRecord& lost, const std::string& why) {
  if (lost.is_worker() && job_.has_begun()) reported_ = std::min(reported_, lost.step);
  if (!lost.has_values && job_.has_begun())
    job_.failed_joins.note(host_of(lost.address), why, job_.now(), job_.options.timeout);
  job_.members.remove(lost.node);
}

void Regrouping::left_view(MemberRecord& member, const LeftView& left) {
  member.left = left;
  if (job_.state() == CoordinatorState::kRegrouping) go_on_when_all_left();
}

void Regrouping::go_on_when_all_left() {
  const auto has_left = [](const auto& entry) { return entry.second.left.has_value(); };
  if (!std::ranges::all_of(job_.members, has_left) &&
      !(mutated(Mutation::kNotAllLeft) && std::ranges::any_of(job_.members, has_left)))
    return;
  if (job_.restores && !restored_step_) return restore();
  const Survivors left = job_.survivors();
  const int64_t step = job_.restores ? *restored_step_ : step_for_all();
  restored_step_.reset();
  reported_ = std::numeric_limits<int64_t>::max();
  const std::vector<Newcomer> joined = job_.begin_next_view(step);
  publish_(left, joined, step);
}

/// The step is known only after its checkpoint has been read, because the checkpoint may be
/// damaged.
void Regrouping::restore() {
  if (reading_) return;
  reading_ = true;
  job_.host.planner.restore();
}

void Regrouping::restored(int64_t step) {
  reading_ = false;
  if (job_.state() != CoordinatorState::kRegrouping) return;
  restored_step_ = step;
  if (spoilt_) returns_ = step > returned_to_ ? 1 : returns_ + 1;
  if (spoilt_) returned_to_ = step;
  spoilt_ = false;
  go_on_when_all_left();
}

/// Returns the smallest complete step of all workers. If a failed worker has not reported that
/// step, it returns the step before, if all workers can revert to it. The workers then compute and
/// report the later step again, completely. They can revert if the failed worker had not begun the
/// next step, because a worker reports a step before it begins the next one.
int64_t Regrouping::step_for_all() const {
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
