#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// Whether survivors' state is valid after this failure. After a replica divergence the correct
/// replica is unknown.
inline bool survivors_are_valid(const NodeFailure& failure) {
  return failure.kind != NodeFailure::Kind::kDiverged;
}

/// A checkpoint to which a job can return.
struct SavedStep {
  int64_t step = 0;
  int64_t in_flight = 0;  ///< number of steps whose sums in flight it holds
};

/// The checkpoints of a job on the coordinator, from complete reception until they are written.
/// They are written in the order of steps, each when all workers agree on its content. After a node
/// failure the checkpoint of one survivor is enough. The queue does no I/O: it calls the write
/// function of each checkpoint. All calls are made in one thread, unless stated otherwise.
class CheckpointQueue {
 public:
  /// A checkpoint that has been received completely.
  struct Arrival {
    uint16_t worker = 0;          ///< the sender
    std::vector<int64_t> digest;  ///< of its tensors, as the sender reports it
    int64_t in_flight = 0;        ///< as in SavedStep
    std::function<void()> write;  ///< throws RunError if it fails
  };
  /// Called for each received checkpoint when its step is saved. The host then informs `worker`,
  /// the sender, which may wait for this.
  using Written = std::function<void(uint16_t worker, int64_t step)>;

  explicit CheckpointQueue(Written written) : written_(std::move(written)) {}

  /// Sets the checkpoint from which the run continues. If checkpoints of later steps were written,
  /// they will be written again.
  void begin_from(const SavedStep& saved);

  // take(), agreed() and trust_survivors() also write all checkpoints that may now be written. They
  // throw RunError if a write fails. After a failed write, the queue writes nothing more.
  /// Adds a received checkpoint. If its step or a later one is already saved, only calls Written:
  /// another worker may have sent the same in-memory checkpoint.
  void take(int64_t step, Arrival arrival);
  /// Called when the job reverts to `step`. Drops all checkpoints that are not written yet, because
  /// workers will send them again. Also drops the agreed digests of later steps.
  void revert_to(int64_t step);
  /// Records that all workers have this digest after `step` steps.
  void agreed(int64_t step, std::vector<int64_t> digest);
  /// From now on checkpoints are written without the agreement of other workers.
  void trust_survivors();

  /// Returns the last checkpoint, or the one that is being written now; the job will return to it.
  /// Step 0: there is none. Nothing is written until release() has been called as often as hold(),
  /// so this checkpoint stays the last one.
  SavedStep hold();
  /// Ends one hold(). Called when the job has returned to the checkpoint that hold() returned.
  void release();

  /// The step of the last written checkpoint, or of the one from which the run began. Any thread
  /// may call this.
  int64_t saved_step() const { return saved_step_; }
  /// Whether the queue would still write a checkpoint of `step`: no later one is saved, and no
  /// write has failed. Any thread may call this.
  bool wants(int64_t step) const { return !failed_ && step > saved_step_; }

 private:
  bool may_be_written(int64_t step) const;
  void write_all();
  void write(int64_t step, const Arrival& arrival);

  const Written written_;
  std::map<int64_t, Arrival> waiting_;              ///< by step
  std::map<int64_t, std::vector<int64_t>> agreed_;  ///< digests by step
  bool trusting_ = false;
  std::atomic<int64_t> saved_step_ = 0;
  std::atomic<bool> failed_ = false;
  /// The last checkpoint that was written or is being written, or from which the run began.
  SavedStep newest_;
  int holds_ = 0;
};

}  // namespace poseidon::comm
