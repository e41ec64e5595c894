#include "trainer/coordinator/cluster_checkpoints.h"

#include "core/error.h"

namespace poseidon::trainer {

void ClusterCheckpoints::begin_from(int64_t step, const std::filesystem::path& file) {
  saved_step_ = step;
  last_ = file;
}

void ClusterCheckpoints::take(uint16_t worker, int64_t step, std::shared_ptr<TensorStore> tensors,
                              SentCheckpoint sent) {
  waiting_[step] = {worker, std::move(tensors), std::move(sent)};
  write_all();
}

void ClusterCheckpoints::agreed(int64_t step, std::vector<int64_t> digest) {
  agreed_[step] = std::move(digest);
  write_all();
}

void ClusterCheckpoints::trust_survivors() {
  trusting_ = true;
  write_all();
}

void ClusterCheckpoints::write_all() {
  while (!waiting_.empty() && !failed_) {
    const auto first = waiting_.begin();
    const int64_t step = first->first;
    if (!agreed_.contains(step) && !trusting_) return;
    const Waiting waiting = std::move(first->second);
    waiting_.erase(first);
    try {
      write(step, waiting);
    } catch (const RunError&) {
      failed_ = true;
      throw;
    }
    agreed_.erase(agreed_.begin(), agreed_.upper_bound(step));
    written_(waiting.worker, step);
  }
}

/// What came must be what its sender says, and what all have said where all have.
void ClusterCheckpoints::write(int64_t step, const Waiting& waiting) {
  const auto agreed = agreed_.find(step);
  if (agreed != agreed_.end() && agreed->second != waiting.sent.digest)
    throw RunError(text("step ", step, ": worker ", waiting.worker,
                        " sent a checkpoint of other values than the workers agreed on"));
  put(state_of_(step), *waiting.tensors, waiting.sent);
}

void ClusterCheckpoints::put(RunState state, TensorStore& store, const SentCheckpoint& sent) {
  state.in_flight = sent.in_flight;
  const RunTensors tensors = store.tensors();
  last_ =
      write_checkpoint(directory_.checkpoints(), state, tensors,
                       {.agreed = &sent.digest, .may_write = [this] { directory_.check_lock(); }});
  weights_digest_ = weights_sha256(tensors);
  state_digest_ = state_sha256(tensors, state.in_flight);
  saved_step_ = state.step;
  directory_.keep();
  prune_checkpoints(directory_.path(), keep_);
}

std::string ClusterCheckpoints::last_text() const {
  return last_.empty() ? "; there is no checkpoint yet"
                       : "; the last checkpoint is " + last_.string();
}

}  // namespace poseidon::trainer
