#include "trainer/coordinator/cluster_checkpoints.h"

#include <utility>

#include "trainer/state/resume.h"

namespace poseidon::trainer {

void ClusterCheckpoints::begin_from(const comm::SavedStep& saved,
                                    const std::filesystem::path& file) {
  files_.begin_from(saved.step, file);
  queue_.begin_from(saved);
}

void ClusterCheckpoints::end_with(const Checkpoint& checkpoint, const Json& list) {
  TensorStore store(list);
  const RunTensors tensors = store.tensors();
  checkpoint.restore(tensors);
  note_digests(tensors, checkpoint.state().in_flight);
}

const Checkpoint* ClusterCheckpoints::hold(const Job& job, int64_t max_in_flight, Log& log) {
  held_.reset();
  const int64_t step = queue_.hold().step;
  if (step == 0) {
    log.info("there is no checkpoint yet: the job restarts from its initial values");
    return nullptr;
  }
  held_ = intact_checkpoint(job, files_.last(), max_in_flight, log);
  if (held_ == nullptr)
    begin_from({}, "");
  else if (held_->state().step != step)
    begin_from({.step = held_->state().step, .in_flight = held_->state().in_flight},
               held_->weights_file());
  return held_.get();
}

std::shared_ptr<const Checkpoint> ClusterCheckpoints::release() {
  queue_.release();
  return std::exchange(held_, nullptr);
}

void ClusterCheckpoints::note_digests(const RunTensors& tensors, int64_t in_flight) {
  weights_digest_ = weights_sha256(tensors);
  state_digest_ = state_sha256(tensors, in_flight);
}

void ClusterCheckpoints::take(uint16_t worker, int64_t step, std::shared_ptr<TensorStore> tensors,
                              SentCheckpoint sent) {
  queue_.take(step, {.worker = worker,
                     .digest = sent.digest,
                     .in_flight = sent.in_flight,
                     .write = [this, step, tensors = std::move(tensors), sent] {
                       write(state_of_(step), *tensors, sent);
                     }});
}

void ClusterCheckpoints::put(const RunState& state, TensorStore& store,
                             const SentCheckpoint& sent) {
  write(state, store, sent);
  queue_.begin_from({.step = state.step, .in_flight = sent.in_flight});
}

void ClusterCheckpoints::write(RunState state, TensorStore& store, const SentCheckpoint& sent) {
  state.in_flight = sent.in_flight;
  const RunTensors tensors = store.tensors();
  files_.write(state, tensors, &sent.digest);
  note_digests(tensors, state.in_flight);
}

}  // namespace poseidon::trainer
