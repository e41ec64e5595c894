#include "comm/membership/checkpoint_queue.h"

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Limit on the stored digests that workers agreed on. Each evaluation adds one, often without a
/// checkpoint, so the oldest are dropped. While a checkpoint is in flight, far fewer digests than
/// this limit are added.
constexpr size_t kMaxAgreed = 1024;

}  // namespace

void CheckpointQueue::begin_from(const SavedStep& saved) {
  saved_step_ = saved.step;
  newest_ = saved;
}

void CheckpointQueue::take(int64_t step, Arrival arrival) {
  if (step <= saved_step_) return written_(arrival.worker, step);
  waiting_[step] = std::move(arrival);
  write_all();
}

void CheckpointQueue::revert_to(int64_t step) {
  waiting_.clear();
  agreed_.erase(agreed_.upper_bound(step), agreed_.end());
}

void CheckpointQueue::agreed(int64_t step, std::vector<int64_t> digest) {
  agreed_[step] = std::move(digest);
  if (agreed_.size() > kMaxAgreed) agreed_.erase(agreed_.begin());
  write_all();
}

void CheckpointQueue::trust_survivors() {
  if constexpr (mutated(Mutation::kNoTrust)) return;
  trusting_ = true;
  write_all();
}

SavedStep CheckpointQueue::hold() {
  ++holds_;
  return newest_;
}

void CheckpointQueue::release() {
  check(holds_ > 0, "release() needs an earlier hold()");
  --holds_;
}

bool CheckpointQueue::may_be_written(int64_t step) const {
  return agreed_.contains(step) || trusting_ || mutated(Mutation::kNoAgreement);
}

void CheckpointQueue::write_all() {
  while (!waiting_.empty() && !failed_ && holds_ == 0 && may_be_written(waiting_.begin()->first)) {
    const auto [step, arrival] = *waiting_.begin();
    newest_ = {step, arrival.in_flight};
    waiting_.erase(waiting_.begin());
    try {
      write(step, arrival);
    } catch (const RunError&) {
      failed_ = true;
      throw;
    }
    saved_step_ = step;
    agreed_.erase(agreed_.begin(), agreed_.upper_bound(step));
    written_(arrival.worker, step);
  }
}

/// Writes a checkpoint. Its digest must equal the agreed digest, if there is one. A survivor drops
/// its sums in flight, but the agreed digest of the same step may include them. Then the numbers of
/// tensors differ, and the digests are not compared.
void CheckpointQueue::write(int64_t step, const Arrival& arrival) {
  const auto agreed = agreed_.find(step);
  const bool same_tensors =
      agreed != agreed_.end() && (!trusting_ || agreed->second.size() == arrival.digest.size());
  if (same_tensors && agreed->second != arrival.digest)
    throw RunError(
        text("step ", step, ": worker ", arrival.worker,
             " sent a checkpoint that differs from the values that the workers agreed on"));
  arrival.write();
}

}  // namespace poseidon::comm
