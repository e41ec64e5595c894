#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/checkpoint_queue.h"
#include "trainer/messages/notes.h"
#include "trainer/report/checkpoint_files.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// Writes the checkpoints that workers send, when comm::CheckpointQueue allows it. Used by the main
/// thread, except where noted.
class ClusterCheckpoints {
 public:
  /// Returns the state that a checkpoint of a step stores in addition to its tensors.
  using StateOf = std::function<RunState(int64_t step)>;

  /// `directory` must outlive this object; `keep`: train.keep_checkpoints.
  ClusterCheckpoints(RunDirectory& directory, int64_t keep, StateOf state_of,
                     comm::CheckpointQueue::Written written)
      : files_(directory, keep), state_of_(std::move(state_of)), queue_(std::move(written)) {}

  /// Sets the last checkpoint to the one from which the run continues. Step 0 and "": there is
  /// none.
  void begin_from(const comm::SavedStep& saved, const std::filesystem::path& file);
  /// The run ends at the checkpoint from which it was resumed, because no steps remain. Computes
  /// the digests of this checkpoint. `list` is the tensor_list() of its tensors.
  void end_with(const Checkpoint& checkpoint, const Json& list);
  // The next functions call those of comm::CheckpointQueue with the same names.
  void take(uint16_t worker, int64_t step, std::shared_ptr<TensorStore> tensors,
            SentCheckpoint sent);
  void agreed(int64_t step, std::vector<int64_t> digest) { queue_.agreed(step, std::move(digest)); }
  void revert_to(int64_t step) { queue_.revert_to(step); }
  void trust_survivors() { queue_.trust_survivors(); }
  /// The job goes back to the last intact checkpoint. Reads, verifies and returns this checkpoint;
  /// null if the job restarts from its initial values. No checkpoint is written until release() has
  /// been called as often as hold(). `max_in_flight`: limit on the number of steps whose sums the
  /// checkpoint may contain.
  const Checkpoint* hold(const Job& job, int64_t max_in_flight, Log& log);
  /// Allows writing again, because the job has gone back to the checkpoint from hold(). Returns
  /// this checkpoint; null: the initial values.
  std::shared_ptr<const Checkpoint> release();
  /// Writes an in-memory checkpoint that a worker has stored since an earlier session. The run then
  /// continues from it. `state` is from the worker's offer. Throws RunError.
  void put(const RunState& state, TensorStore& store, const SentCheckpoint& sent);

  // These functions call those of comm::CheckpointQueue. Any thread may call them.
  int64_t saved_step() const { return queue_.saved_step(); }
  bool wants(int64_t step) const { return queue_.wants(step); }

  const std::filesystem::path& last() const { return files_.last(); }
  std::string last_text() const { return files_.last_text(); }
  /// SHA-256 of the weights and of the state of the last written checkpoint, or of the argument of
  /// end_with(); "" if there is none.
  const std::string& weights_digest() const { return weights_digest_; }
  const std::string& state_digest() const { return state_digest_; }

 private:
  void note_digests(const RunTensors& tensors, int64_t in_flight);
  void write(RunState state, TensorStore& store, const SentCheckpoint& sent);

  CheckpointFiles files_;
  const StateOf state_of_;
  comm::CheckpointQueue queue_;
  std::shared_ptr<const Checkpoint> held_;
  std::string weights_digest_, state_digest_;
};

}  // namespace poseidon::trainer
