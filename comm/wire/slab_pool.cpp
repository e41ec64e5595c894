#include "comm/wire/slab_pool.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"

namespace poseidon::comm {

namespace {

/// The capacity of a slab: one of four in each power of two. So slabs of similar sizes share
/// memory.
uint64_t capacity_for(uint64_t bytes) {
  const uint64_t unit = std::max<uint64_t>(std::bit_ceil(bytes) / 8, sizeof(float));
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

struct SlabPool::Store {
  Mutex mutex;
  std::unordered_map<uint64_t, std::vector<std::unique_ptr<Slab>>> free
      GUARDED_BY(mutex);  ///< by capacity
  uint64_t bytes_in_use GUARDED_BY(mutex) = 0;

  std::unique_ptr<Slab> take(uint64_t bytes) {
    const uint64_t capacity = capacity_for(bytes);
    MutexLock lock(mutex);
    auto& of_capacity = free[capacity];
    if (of_capacity.empty())
      of_capacity.push_back(std::make_unique<Slab>(Slab{.memory = Buffer(capacity)}));
    std::unique_ptr<Slab> slab = std::move(of_capacity.back());
    of_capacity.pop_back();
    slab->size = bytes;
    bytes_in_use += bytes;
    return slab;
  }
  void give_back(Slab* slab) {
    MutexLock lock(mutex);
    bytes_in_use -= slab->size;
    free[capacity_for(slab->size)].emplace_back(slab);
  }
};

SlabPool::SlabPool() : store_(std::make_shared<Store>()) {}

std::shared_ptr<SlabPool::Slab> SlabPool::take(uint64_t bytes) {
  return {store_->take(bytes).release(), [store = store_](Slab* back) { store->give_back(back); }};
}

uint64_t SlabPool::bytes_in_use() const {
  MutexLock lock(store_->mutex);
  return store_->bytes_in_use;
}

}  // namespace poseidon::comm
