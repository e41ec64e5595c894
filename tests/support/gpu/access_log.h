#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poseidon::cuda {

/// A vector clock: for each stream, the number of its operations that are known to be complete at
/// some point. The point is an operation, an event or a position in the host's program.
class Clock {
 public:
  void join(const Clock& other);
  /// Records that the next operation of this stream is complete.
  void tick(size_t stream);
  uint64_t of(size_t stream) const { return stream < ticks_.size() ? ticks_[stream] : 0; }
  /// Whether this clock is at or after `other` in every stream.
  bool includes(const Clock& other) const;

 private:
  std::vector<uint64_t> ticks_;
};

/// An operation, as the clock orders it.
struct Stamp {
  size_t stream = 0;
  uint64_t tick = 0;  ///< number of the operation in its stream, from 1
  std::string name;

  bool is_before(const Clock& clock) const { return clock.of(stream) >= tick; }
};

/// Records the last writer and the readers of each byte of memory. Two operations that access the
/// same byte, one of them writing, must be ordered. If they are not, read() or write() throws
/// LogicError, which names both.
class AccessLog {
 public:
  /// `before`: the clock of operations that are complete before this one starts.
  void read(const void* data, size_t bytes, const Stamp& by, const Clock& before);
  void write(const void* data, size_t bytes, const Stamp& by, const Clock& before);
  /// Call this when memory is freed. Later accesses to the same addresses have no relation to
  /// earlier ones.
  void forget(const void* data, size_t bytes);

 private:
  struct Range {
    uintptr_t end = 0;
    Stamp writer;  ///< tick 0: none
    std::vector<Stamp> readers;
  };
  using Ranges = std::map<uintptr_t, Range>;  ///< key: first address; ranges do not overlap

  void split(uintptr_t at);
  /// Calls use(range) for each range of the memory. Ranges are split so that they start and end
  /// with it.
  template <class Use>
  void for_each(const void* data, size_t bytes, const Use& use);

  Ranges ranges_;
};

}  // namespace poseidon::cuda
