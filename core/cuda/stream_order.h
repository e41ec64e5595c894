#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"

namespace poseidon::cuda {

/// How much of each stream's work is done, counted in operations: at a point of a stream, or when
/// the host has waited.
class WorkDone {
 public:
  uint64_t of(size_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }
  void set(size_t stream, uint64_t count);
  void join(const WorkDone& other);
  bool includes(const WorkDone& other) const;

 private:
  std::vector<uint64_t> counts_;
};

/// What of which stream's work comes before the next of each, so that a stream need not wait for
/// what it comes after anyway. Used by the compute thread, but for host_knows().
class StreamOrder {
 public:
  /// An operation is issued to the stream.
  void issued(size_t stream);
  /// The work before the stream's next operation, its own included.
  WorkDone before(size_t stream);
  /// The stream's next operation comes after `done`.
  void comes_after(size_t stream, const WorkDone& done) { of(stream).join(done); }
  bool is_after(size_t stream, const WorkDone& done) { return before(stream).includes(done); }
  /// The host has waited for `done`: all that is issued from now on comes after it. Any thread may
  /// say so that the compute thread waits for, or that is this.
  void host_knows(const WorkDone& done);

 private:
  WorkDone& of(size_t stream);

  std::vector<WorkDone> streams_;
  Mutex mutex_;
  WorkDone host_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::cuda
