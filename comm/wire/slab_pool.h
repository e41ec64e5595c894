#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/buffer.h"

namespace poseidon::comm {

/// A pool of fp32 buffers for slices. A slab may outlive the pool, and any thread may release it.
class SlabPool {
 public:
  struct Slab {
    Buffer memory;
    std::span<float> values() const { return memory.as<float>(); }
  };

  SlabPool();
  /// Returns uninitialized memory for `elements` values. The memory returns to the pool when its
  /// last owner releases it.
  std::shared_ptr<Slab> take(uint64_t elements);
  /// Bytes of all slabs in use.
  uint64_t bytes_in_use() const;

 private:
  struct Store;
  std::shared_ptr<Store> store_;  ///< shared: a sum for a slow peer may outlive the pool
};

}  // namespace poseidon::comm
