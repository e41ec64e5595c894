#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/cuda/operation.h"
#include "core/device.h"
#include "tests/support/gpu/access_log.h"

namespace poseidon::cuda {

/// The memory of a GPU that the host plays. An operation must lie within it, or within staging
/// memory of another one, which any can reach; and where the address sanitizer looks, it ends a
/// test
///
///   - in which an operation touches memory of this GPU that it does not tell of,
///   - in which the host touches memory of the device, or staging memory that an operation writes
///     and that the host does not know to be done.
class GuardedMemory {
 public:
  void add(const void* data, size_t bytes, Place place);
  void remove(const void* data, size_t bytes);

  /// LogicError where it touches what is not one piece of this memory.
  void issued(const Operation& operation, const Stamp& stamp);
  /// Around what carries the operation out.
  void open(const Operation& operation) const;
  void close(const Operation& operation) const;
  /// The host knows what comes before `clock` to be done.
  void host_knows(const Clock& clock);

 private:
  struct Piece {
    size_t bytes = 0;
    Place place = Place::kDevice;
  };
  /// Staging memory that an operation writes.
  struct Write {
    const void* data = nullptr;
    size_t bytes = 0;
    Stamp by;
  };
  struct Staging;
  class Checker;
  class Opener;
  class Closer;

  static Staging& staging();
  /// Null where the memory does not lie within a piece.
  const Piece* piece_of(const void* data, size_t bytes) const;
  void guard_writes() const;

  std::map<uintptr_t, Piece> pieces_;  ///< of the device's memory, by where they begin
  std::vector<Write> writes_;          ///< that the host does not know to be done
};

}  // namespace poseidon::cuda
