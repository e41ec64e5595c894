#include "comm/wire/slab_pool.h"

#include <unordered_map>
#include <vector>

#include "core/mutex.h"

namespace poseidon::comm {

struct SlabPool::Store {
  Mutex mutex;
  std::unordered_map<uint64_t, std::vector<std::unique_ptr<Slab>>> free
      GUARDED_BY(mutex);  ///< by number of elements
  uint64_t bytes_in_use GUARDED_BY(mutex) = 0;

  std::unique_ptr<Slab> take(uint64_t elements) {
    MutexLock lock(mutex);
    auto& of_size = free[elements];
    if (of_size.empty())
      of_size.push_back(std::make_unique<Slab>(Slab{Buffer(elements * sizeof(float))}));
    std::unique_ptr<Slab> slab = std::move(of_size.back());
    of_size.pop_back();
    bytes_in_use += elements * sizeof(float);
    return slab;
  }
  void give_back(uint64_t elements, Slab* slab) {
    MutexLock lock(mutex);
    bytes_in_use -= elements * sizeof(float);
    free[elements].emplace_back(slab);
  }
};

SlabPool::SlabPool() : store_(std::make_shared<Store>()) {}

std::shared_ptr<SlabPool::Slab> SlabPool::take(uint64_t elements) {
  return {store_->take(elements).release(),
          [store = store_, elements](Slab* back) { store->give_back(elements, back); }};
}

uint64_t SlabPool::bytes_in_use() const {
  MutexLock lock(store_->mutex);
  return store_->bytes_in_use;
}

}  // namespace poseidon::comm
