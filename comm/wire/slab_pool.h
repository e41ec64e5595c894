#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/buffer.h"

namespace poseidon::comm {

/// Memory for slices of numbers that is used again and again. What it gave out may outlive it, and
/// may be given back by any thread.
class SlabPool {
 public:
  struct Slab {
    Buffer memory;
    std::span<float> values() const { return memory.as<float>(); }
  };

  SlabPool();
  /// `elements` values, whatever they are; given back when the last owner lets go.
  std::shared_ptr<Slab> take(uint64_t elements);
  /// Bytes given out now.
  uint64_t bytes_in_use() const;

 private:
  struct Store;
  std::shared_ptr<Store> store_;  ///< shared: a peer that is slow to take a sum may hold it longest
};

}  // namespace poseidon::comm
