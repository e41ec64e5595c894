#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"

namespace poseidon::cuda {

/// A vector clock: a count n for each stream, which means that the first n operations of the stream
/// are done. It describes the work that precedes an event, or that the host has waited for.
class VectorClock {
 public:
  uint64_t of(size_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }
  void set(size_t stream, uint64_t count);
  void join(const VectorClock& other);
  bool includes(const VectorClock& other) const;

 private:
  std::vector<uint64_t> counts_;
};

/// Tracks the work that precedes the next operation of each stream, so that WaitElidingDriver can
/// omit redundant waits. Only the compute thread uses it, except for host_waited_for() and
/// host_is_after().
class StreamOrder {
 public:
  /// Records that an operation is issued to the stream.
  void issued(size_t stream);
  /// All work that precedes the stream's next operation, including earlier work of the stream.
  VectorClock before(size_t stream);
  /// Records that the stream's next operation comes after `done`.
  void comes_after(size_t stream, const VectorClock& done) { of(stream).join(done); }
  bool is_after(size_t stream, const VectorClock& done) { return before(stream).includes(done); }
  /// Records that the host has waited for `done`: all work issued from now on comes after it.
  /// Called by the compute thread, or by a thread that the compute thread waits for.
  void host_waited_for(const VectorClock& done);
  /// Whether the host has waited for `done`. Any thread may call this function.
  bool host_is_after(const VectorClock& done);

 private:
  VectorClock& of(size_t stream);

  std::vector<VectorClock> streams_;
  Mutex mutex_;
  VectorClock host_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::cuda
