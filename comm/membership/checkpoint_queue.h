#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// Whether the state of survivors counts after this loss. After a drift nobody knows whose does.
inline bool survivors_count(const Loss& loss) { return loss.kind != Loss::Kind::kDrift; }

/// A checkpoint that a job can go back to.
struct SavedStep {
  int64_t step = 0;
  int64_t in_flight = 0;  ///< of so many steps up to it, it carries the sums
};

/// The checkpoints of a job on the coordinator, from the moment in which one has come in whole
/// until it is written. Each is written when all workers agree on what is in it, in the order of
/// steps; after a loss a survivor's state is enough. It does no I/O: how a checkpoint is written
/// comes with it. Calls are made in one thread, but for what says otherwise.
class CheckpointQueue {
 public:
  /// A checkpoint that has come in whole.
  struct Arrival {
    uint16_t worker = 0;          ///< that has sent it
    std::vector<int64_t> digest;  ///< of its tensors, as the sender says
    int64_t in_flight = 0;        ///< as SavedStep has it
    std::function<void()> write;  ///< throws RunError where it cannot
  };
  /// Called for each that is written: the worker that had sent it waits for that.
  using Written = std::function<void(uint16_t worker, int64_t step)>;

  explicit CheckpointQueue(Written written) : written_(std::move(written)) {}

  /// The run goes on from this checkpoint. What was written of later steps does not count.
  void begin_from(const SavedStep& saved);

  // These write what can be written. They throw RunError when that fails, and then nothing is
  // written any more.
  /// One of a step that is saved already counts as written: a second worker may have kept the same.
  void take(int64_t step, Arrival arrival);
  /// The job goes back to `step`: what has come in and waits for agreement is sent again, and later
  /// steps are agreed on again.
  void go_back_to(int64_t step);
  /// All workers have this digest after `step` steps.
  void agreed(int64_t step, std::vector<int64_t> digest);
  /// From now on nobody else's agreement is waited for.
  void trust_survivors();

  /// The last checkpoint, or one that is being written just now, becomes the one that the job goes
  /// back to; of step 0 where there is none. Nothing is written from then on, and so it stays the
  /// last, until release() has been called as often.
  SavedStep hold();
  /// The job has gone back.
  void release();

  /// The step of the last checkpoint that was written, or that the run began from. From any thread.
  int64_t saved_step() const { return saved_step_; }
  /// Whether there is any use in sending one of `step`. From any thread.
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
  SavedStep newest_;  ///< that was written, or is being written
  int holds_ = 0;
};

}  // namespace poseidon::comm
