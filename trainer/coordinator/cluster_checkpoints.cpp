#include "trainer/coordinator/cluster_checkpoints.h"

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
