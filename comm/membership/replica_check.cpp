#include "comm/membership/replica_check.h"

#include "comm/plan/plan.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// Of one worker, of steps that others have not come to: all that can be in flight and some more.
constexpr size_t kMostDigests = 2 * kMostStaleness;
}  // namespace

bool ReplicaCheck::have_equal_first_values(int64_t first_step) {
  Digests digests;
  for (const auto& [node, member] : job_.members)
    if (member.is_worker()) digests[node.rank] = member.digest;
  return are_equal(first_step, digests);
}

void ReplicaCheck::take(const MemberRecord& member, const Digest& digest) {
  // Where a checkpoint and a test are due after the same step, its digest may come twice.
  if (job_.state() != CoordinatorState::kRunning || digest.step <= agreed_step_) return;
  refuse_too_many(member, digest);
  Digests& digests = by_step_[digest.step];
  digests[member.node.rank] = digest.values;
  if (digests.size() < job_.members.count(Role::kWorker) || !are_equal(digest.step, digests))
    return;
  by_step_.erase(by_step_.begin(), by_step_.upper_bound(digest.step));
  agreed_step_ = digest.step;
  job_.host.checkpoints.agreed(digest.step, digest.values);
}

/// What a worker tells ahead of the others is kept, so it must have an end. Its first digest, which
/// all workers share, is of as many tensors as any later one without sums in flight.
void ReplicaCheck::refuse_too_many(const MemberRecord& member, const Digest& digest) const {
  const size_t most = member.digest.size() * (kMostStaleness + 1);
  if (digest.values.size() > most)
    throw ConfigError(
        text("a digest of ", digest.values.size(), " tensors, expected at most ", most));
  if (by_step_.size() >= kMostDigests && !by_step_.contains(digest.step))
    throw ConfigError(text("digests of ", kMostDigests, " steps that not all workers have done"));
}

/// What most workers have is right. Where there is no most, nobody knows who is wrong.
bool ReplicaCheck::are_equal(int64_t step, const Digests& digests) {
  const std::optional<Drift> drift = find_drift(
      digests, step, [this](size_t index) { return job_.host.checkpoints.tensor_name(index); });
  if (!drift) return true;
  Loss loss{.kind = Loss::Kind::kDrift,
            .who = {},
            .address = "",
            .why = drift->why,
            .step = step,
            .awaited = ""};
  if (drift->who) {
    loss.who = {Role::kWorker, *drift->who};
    loss.address = job_.members.find(loss.who)->address;
  }
  verdict_.accuse(loss);
  return false;
}

}  // namespace poseidon::comm
