#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/cuda/operation.h"
#include "core/device.h"
#include "tests/support/gpu/access_log.h"

namespace poseidon::cuda {

/// The memory of an emulated GPU. Each access of an operation must lie within one allocation of
/// this GPU, or within staging memory of any GPU. With the address sanitizer, a test also fails if
///
///   - an operation accesses memory of this GPU that it does not declare,
///   - the host accesses device memory,
///   - the host accesses staging memory while an operation may still write to it.
class GuardedMemory {
 public:
  void add(const void* data, size_t bytes, MemoryKind place);
  void remove(const void* data, size_t bytes);

  /// Throws LogicError if the operation accesses memory outside one allocation.
  void issued(const Operation& operation, const Stamp& stamp);
  /// Bytes of staging memory that an operation reads and writes.
  struct StagingAccess {
    int64_t read = 0, written = 0;
    int64_t total() const { return read + written; }
  };
  StagingAccess staging_access(const Operation& operation) const;
  /// Call these before and after the operation runs.
  void open(const Operation& operation) const;
  void close(const Operation& operation) const;
  /// Records that the host knows the operations before `clock` to be complete.
  void host_waited_for(const Clock& clock);

 private:
  struct Piece {
    size_t bytes = 0;
    MemoryKind place = MemoryKind::kDevice;
  };
  /// A write of an operation to staging memory.
  struct Write {
    const void* data = nullptr;
    size_t bytes = 0;
    Stamp by;
  };
  struct Staging;
  class Checker;
  class StagingCounter;
  class Opener;
  class Closer;

  static Staging& staging();
  /// Null if the memory does not lie within one allocation.
  const Piece* piece_of(const void* data, size_t bytes) const;
  void guard_writes() const;

  std::map<uintptr_t, Piece> pieces_;  ///< device memory; key: first address
  std::vector<Write> writes_;          ///< the host does not know these to be complete
};

}  // namespace poseidon::cuda
