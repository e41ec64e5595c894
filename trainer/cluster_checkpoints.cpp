#include "trainer/cluster_checkpoints.h"

#include <algorithm>

namespace poseidon::trainer {

void ClusterCheckpoints::begin_from(int64_t step, const std::filesystem::path& file) {
  saved_step_ = step;
  last_ = file;
}

void ClusterCheckpoints::take(int64_t step, std::shared_ptr<TensorStore> tensors,
                              int64_t in_flight) {
  waiting_[step] = {std::move(tensors), in_flight};
  write();
}

void ClusterCheckpoints::agreed(int64_t step) {
  agreed_step_ = std::max(agreed_step_, step);
  write();
}

void ClusterCheckpoints::trust_survivors() {
  trusting_ = true;
  write();
}

void ClusterCheckpoints::write() {
  while (!waiting_.empty()) {
    const auto& [step, waiting] = *waiting_.begin();
    if (step > agreed_step_ && !trusting_) return;
    const RunTensors tensors = waiting.tensors->tensors();
    RunState state = state_of_(step);
    state.in_flight = waiting.in_flight;
    last_ = write_checkpoint(folder_, state, tensors);
    weights_digest_ = weights_sha256(tensors);
    saved_step_ = step;
    waiting_.erase(waiting_.begin());
  }
}

std::string ClusterCheckpoints::last_text() const {
  return last_.empty() ? "; there is no checkpoint yet"
                       : "; the last checkpoint is " + last_.string();
}

}  // namespace poseidon::trainer
