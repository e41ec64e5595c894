#include "comm/membership/divergence_check.h"

#include "comm/plan/plan.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// Limit on the pairs of step and tensor group (Digest::turn) that wait for digests of workers. It
/// is above the number of pairs that can be in flight.
constexpr size_t kMaxDigests = 2 * kMaxStaleness;
}  // namespace

/// A joiner's replica is a copy, so it has no vote. If all workers are new, the replicas are
/// compared with each other.
bool DivergenceCheck::have_equal_initial_values(int64_t first_step) {
  Digests digests, copies;
  for (const auto& [node, member] : job_.members)
    if (member.is_worker()) (member.has_values ? digests : copies)[node.rank] = member.digest;
  if (digests.empty()) digests.swap(copies);
  if (!are_equal(first_step, Digest::kAll, digests)) return false;
  const std::optional<Divergence> divergence =
      find_false_copies(copies, digests.begin()->second, first_step,
                        [this](size_t index) { return tensor_name(Digest::kAll, index); });
  if (divergence) declare_failed(*divergence, first_step);
  return !divergence;
}

void DivergenceCheck::take(const MemberRecord& member, const Digest& digest) {
  // If a checkpoint and a test are due after the same step, the digest of this step may arrive
  // twice.
  if (job_.state() != CoordinatorState::kRunning || digest.step <= agreed_step_) return;
  refuse_too_many(member, digest);
  const std::pair key(digest.step, digest.turn);
  Digests& digests = incomplete_digests_[key];
  digests[member.node.rank] = digest.values;
  if (digests.size() < job_.members.count(Role::kWorker) ||
      !are_equal(digest.step, digest.turn, digests))
    return;
  incomplete_digests_.erase(incomplete_digests_.begin(), incomplete_digests_.upper_bound(key));
  if (digest.turn != Digest::kAll) return;
  agreed_step_ = digest.step;
  job_.host.checkpoints.agreed(digest.step, digest.values);
}

/// Digests of a worker that is ahead of the others are stored, so they need a limit. A worker's
/// first digest has as many tensors as any later one without sums in flight.
void DivergenceCheck::refuse_too_many(const MemberRecord& member, const Digest& digest) const {
  const size_t most = member.digest.size() * (kMaxStaleness + 1);
  if (digest.values.size() > most)
    throw ConfigError(
        text("a digest of ", digest.values.size(), " tensors, expected at most ", most));
  if (incomplete_digests_.size() >= kMaxDigests &&
      !incomplete_digests_.contains({digest.step, digest.turn}))
    throw ConfigError(
        text("expected digests of at most ", kMaxDigests, " incomplete steps, got more"));
}

/// Whether all digests are equal. If not, declares the diverged workers as failed. The values of
/// the majority count as correct. Without a majority, the diverged workers are unknown.
bool DivergenceCheck::are_equal(int64_t step, int64_t turn, const Digests& digests) {
  const std::optional<Divergence> divergence =
      find_divergence(digests, step, [&](size_t index) { return tensor_name(turn, index); });
  if (divergence) declare_failed(*divergence, step);
  return !divergence;
}

std::string DivergenceCheck::tensor_name(int64_t turn, size_t index) const {
  const bool all = turn == Digest::kAll;
  return job_.host.checkpoints.tensor_name(all ? index
                                               : index * kDigestTurns + static_cast<size_t>(turn));
}

void DivergenceCheck::declare_failed(const Divergence& divergence, int64_t step) {
  const NodeFailure failure{.kind = NodeFailure::Kind::kDiverged,
                            .who = {},
                            .address = "",
                            .why = divergence.why,
                            .step = step,
                            .awaited = ""};
  std::vector<NodeFailure> failures(std::max<size_t>(divergence.who.size(), 1), failure);
  for (size_t i = 0; i < divergence.who.size(); ++i) {
    failures[i].who = {Role::kWorker, divergence.who[i]};
    failures[i].address = job_.members.find(failures[i].who)->address;
  }
  failure_detector_.declare_failed(std::move(failures));
}

}  // namespace poseidon::comm
