#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/buffer.h"

namespace poseidon::comm {

/// A pool of buffers for slices. A slab may outlive the pool, and any thread may release it.
class SlabPool {
 public:
  struct Slab {
    Buffer memory;      ///< at least `size` bytes
    uint64_t size = 0;  ///< in bytes
    std::span<std::byte> bytes() const { return memory.as<std::byte>().first(size); }
    /// The memory as fp32 values. `size` must be a multiple of 4.
    std::span<float> values() const { return memory.as<float>().first(size / sizeof(float)); }
  };

  SlabPool();
  /// Returns uninitialized memory of this many bytes, at least 1. The memory returns to the pool
  /// when its last owner releases it.
  std::shared_ptr<Slab> take(uint64_t bytes);
  /// Bytes of all slabs in use.
  uint64_t bytes_in_use() const;

 private:
  struct Store;
  std::shared_ptr<Store> store_;  ///< shared: a sum for a slow peer may outlive the pool
};

}  // namespace poseidon::comm
