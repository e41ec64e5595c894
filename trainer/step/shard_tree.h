#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"
#include "layers/update.h"

namespace poseidon::trainer {

/// Sums one tensor in device memory over the logical shards 0 to n - 1 by the fixed binary tree.
/// The number of shards in the left child of a range is the largest power of two below the range's
/// length. The right child contains the other shards. Shards come in order, and their sums are
/// merged like the digits of a binary counter. So at most bit_width(n - 1) partial sums are stored.
class ShardTree {
 public:
  ShardTree(Device& device, layers::Updater& updater, size_t elements, int64_t shards)
      : device_(device),
        updater_(updater),
        elements_(elements),
        shards_(shards),
        partial_(
            device.allocate(bytes(elements, shards), MemoryKind::kDevice, "sums over shards")) {}

  /// Bytes of memory of the partial sums.
  static size_t bytes(size_t elements, int64_t shards) {
    return elements * sizeof(float) *
           static_cast<size_t>(std::bit_width(static_cast<uint64_t>(shards - 1)));
  }

  /// Adds the values of `shard`; shards come in order. May overwrite `values`. After the last
  /// shard, `values` holds the sum.
  void add(int64_t shard, std::span<float> values) {
    const bool last = shard == shards_ - 1;
    size_t level = 0;
    // Each set bit of the counter represents a finished subtree to the left of this shard.
    for (uint64_t counter = static_cast<uint64_t>(shard); counter != 0; counter >>= 1, ++level) {
      if ((counter & 1) != 0)
        updater_.add(partial(level), values, values);
      else if (!last)
        break;
    }
    if (!last) device_.copy(values, partial(level));
  }

 private:
  std::span<float> partial(size_t level) {
    return partial_.as<float>().subspan(level * elements_, elements_);
  }

  Device& device_;
  layers::Updater& updater_;
  size_t elements_;
  int64_t shards_;
  Buffer partial_;
};

}  // namespace poseidon::trainer
