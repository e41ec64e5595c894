#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/mutex.h"

namespace poseidon::trainer {

/// Limit on bytes of a checkpoint that are copied but not yet sent.
inline constexpr size_t kMaxBytesInFlight = size_t{64} << 20;

/// Limits the memory of a worker's checkpoints on their way to the coordinator. The compute thread
/// blocks while the limit is reached, and until the coordinator has written the previous
/// checkpoint. Other threads report that a checkpoint was written.
class SendWindow {
 public:
  /// `most`: limit on the bytes in flight. A larger tensor waits until no bytes are in flight.
  explicit SendWindow(size_t most) : state_(std::make_shared<State>()), most_(most) {}

  /// Returns uninitialized memory for `count` floats. It counts as in flight until its last owner
  /// releases it. Blocks until there is room. Throws JobFailed after end().
  std::shared_ptr<float[]> allocate(size_t count);

  /// Begins a checkpoint. Blocks until the previous one is written. Throws JobFailed after end().
  void begin(int64_t step);
  /// Reports that the coordinator has written the checkpoint of `step`. Called by any thread.
  void written(int64_t step);
  /// Blocks until the current checkpoint is written. Throws JobFailed after end().
  void wait_until_written();

  /// Marks the job as failed. Until reopen(), waiting and later calls of the compute thread throw
  /// JobFailed. Called by any thread.
  void end();
  /// Undoes end(), so that the worker can send checkpoints again: in the next view, or once after
  /// the job has failed. Later calls do not wait for the earlier checkpoint.
  void reopen();

 private:
  /// Shared with the allocated memory, which may outlive the window.
  struct State {
    Mutex mutex;
    Condition changed;
    size_t in_flight GUARDED_BY(mutex) = 0;
    int64_t unwritten GUARDED_BY(mutex) = -1;  ///< step of the checkpoint in progress; -1: none
    bool ended GUARDED_BY(mutex) = false;

    void release(size_t bytes);
  };

  const std::shared_ptr<State> state_;
  const size_t most_;
};

}  // namespace poseidon::trainer
