#include "comm/membership/replica_check.h"

#include "comm/plan/plan.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// The most pairs of step and turn without the digests of all workers: all that can be in flight,
/// and some more.
constexpr size_t kMostDigests = 2 * kMostStaleness;
}  // namespace

/// Joiners have a copy of the members' values, unless all workers are new.
bool ReplicaCheck::have_equal_first_values(int64_t first_step) {
  Digests digests, copies;
  for (const auto& [node, member] : job_.members)
    if (member.is_worker()) (member.has_values ? digests : copies)[node.rank] = member.digest;
  if (digests.empty()) digests.swap(copies);
  if (!are_equal(first_step, Digest::kAll, digests)) return false;
  const std::optional<Drift> drift =
      find_false_copies(copies, digests.begin()->second, first_step,
                        [this](size_t index) { return tensor_name(Digest::kAll, index); });
  if (drift) accuse(*drift, first_step);
  return !drift;
}

void ReplicaCheck::take(const MemberRecord& member, const Digest& digest) {
  // If a checkpoint and a test are due after the same step, its digest may arrive twice.
  if (job_.state() != CoordinatorState::kRunning || digest.step <= agreed_step_) return;
  refuse_too_many(member, digest);
  const std::pair key(digest.step, digest.turn);
  Digests& digests = coming_[key];
  digests[member.node.rank] = digest.values;
  if (digests.size() < job_.members.count(Role::kWorker) ||
      !are_equal(digest.step, digest.turn, digests))
    return;
  coming_.erase(coming_.begin(), coming_.upper_bound(key));
  if (digest.turn != Digest::kAll) return;
  agreed_step_ = digest.step;
  job_.host.checkpoints.agreed(digest.step, digest.values);
}

/// Digests of a worker that is ahead of the others are stored, so they need a limit. A worker's
/// first digest has as many tensors as any later one without sums in flight.
void ReplicaCheck::refuse_too_many(const MemberRecord& member, const Digest& digest) const {
  const size_t most = member.digest.size() * (kMostStaleness + 1);
  if (digest.values.size() > most)
    throw ConfigError(
        text("a digest of ", digest.values.size(), " tensors, expected at most ", most));
  if (coming_.size() >= kMostDigests && !coming_.contains({digest.step, digest.turn}))
    throw ConfigError(
        text("expected digests of at most ", kMostDigests, " incomplete steps, got more"));
}

/// The values of the majority are correct. Without a majority, the diverged workers are unknown.
bool ReplicaCheck::are_equal(int64_t step, int64_t turn, const Digests& digests) {
  const std::optional<Drift> drift =
      find_drift(digests, step, [&](size_t index) { return tensor_name(turn, index); });
  if (drift) accuse(*drift, step);
  return !drift;
}

std::string ReplicaCheck::tensor_name(int64_t turn, size_t index) const {
  const bool all = turn == Digest::kAll;
  return job_.host.checkpoints.tensor_name(all ? index
                                               : index * kDigestTurns + static_cast<size_t>(turn));
}

void ReplicaCheck::accuse(const Drift& drift, int64_t step) {
  const NodeFailure loss{.kind = NodeFailure::Kind::kDrift,
                         .who = {},
                         .address = "",
                         .why = drift.why,
                         .step = step,
                         .awaited = ""};
  std::vector<NodeFailure> losses(std::max<size_t>(drift.who.size(), 1), loss);
  for (size_t i = 0; i < drift.who.size(); ++i) {
    losses[i].who = {Role::kWorker, drift.who[i]};
    losses[i].address = job_.members.find(losses[i].who)->address;
  }
  verdict_.accuse(std::move(losses));
}

}  // namespace poseidon::comm
