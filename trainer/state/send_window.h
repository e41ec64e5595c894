#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/mutex.h"

namespace poseidon::trainer {

/// Of a checkpoint, copied and not yet sent.
inline constexpr size_t kMostBytesOnTheWay = size_t{64} << 20;

/// How much of its checkpoints a worker has in memory on their way to the coordinator: the compute
/// thread waits where it is too much, and begins none while the one before is not written. Other
/// threads say what has become of it.
class SendWindow {
 public:
  /// Values are lent while less than `most` bytes are on their way, or none.
  explicit SendWindow(size_t most) : state_(std::make_shared<State>()), most_(most) {}

  /// Memory for `count` values, not set, which is on its way until nobody holds it. Waits for room.
  /// Throws JobLost after end().
  std::shared_ptr<float[]> lend(size_t count);

  /// A checkpoint is begun. Waits until the one before is written; throws JobLost after end().
  void begin(int64_t step);
  void written(int64_t step);
  /// Waits until what was begun is written. Throws JobLost after end().
  void wait_until_written();

  /// The job has failed: who waits is woken, and nobody waits any more for what is written.
  void end();
  /// From now on the checkpoint of a survivor is sent, which is written when all is over.
  void begin_anew();

 private:
  /// Shared with the memory that is lent: it may outlive the window.
  struct State {
    Mutex mutex;
    Condition changed;
    size_t on_the_way GUARDED_BY(mutex) = 0;
    int64_t unwritten GUARDED_BY(mutex) = -1;  ///< the step whose checkpoint is under way
    bool ended GUARDED_BY(mutex) = false;

    void release(size_t bytes);
  };

  const std::shared_ptr<State> state_;
  const size_t most_;
};

}  // namespace poseidon::trainer
