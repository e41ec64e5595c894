#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poseidon::cuda {

/// For each stream, how many of its operations are certain to be done: what comes before an
/// operation, or before a point of a stream or of the host.
class Clock {
 public:
  void join(const Clock& other);
  /// The next operation of this stream is done.
  void tick(size_t stream);
  uint64_t of(size_t stream) const { return stream < ticks_.size() ? ticks_[stream] : 0; }
  /// Whether all that is done by `other` is done.
  bool includes(const Clock& other) const;

 private:
  std::vector<uint64_t> ticks_;
};

/// An operation as others are ordered after it.
struct Stamp {
  size_t stream = 0;
  uint64_t tick = 0;  ///< its number among those of its stream, from 1
  std::string name;

  bool is_before(const Clock& clock) const { return clock.of(stream) >= tick; }
};

/// Who last wrote and read each byte of memory. Two operations that touch the same byte, one of
/// them writing, must be ordered; LogicError names the first two that are not.
class AccessLog {
 public:
  /// `before` is what is certain to be done before the operation.
  void read(const void* data, size_t bytes, const Stamp& by, const Clock& before);
  void write(const void* data, size_t bytes, const Stamp& by, const Clock& before);
  /// Memory that is given back; what follows there has nothing to do with it.
  void forget(const void* data, size_t bytes);

 private:
  struct Range {
    uintptr_t end = 0;
    Stamp writer;  ///< tick 0: nobody
    std::vector<Stamp> readers;
  };
  using Ranges = std::map<uintptr_t, Range>;  ///< by where they begin; apart from each other

  void split(uintptr_t at);
  /// Calls use(range) for all of the memory, in ranges that begin and end with it.
  template <class Use>
  void for_each(const void* data, size_t bytes, const Use& use);

  Ranges ranges_;
};

}  // namespace poseidon::cuda
