#include "comm/slab_pool.h"

#include <unordered_map>
#include <vector>

namespace poseidon::comm {

struct SlabPool::Store {
  std::unordered_map<uint64_t, std::vector<std::unique_ptr<Slab>>> free;  ///< by elements
  uint64_t bytes_in_use = 0;
};

SlabPool::SlabPool() : store_(std::make_shared<Store>()) {}

std::shared_ptr<SlabPool::Slab> SlabPool::take(uint64_t elements) {
  auto& free = store_->free[elements];
  std::unique_ptr<Slab> slab;
  if (free.empty()) {
    slab = std::make_unique<Slab>(Slab{Buffer(elements * sizeof(float))});
  } else {
    slab = std::move(free.back());
    free.pop_back();
  }
  store_->bytes_in_use += elements * sizeof(float);
  return {slab.release(), [store = store_, elements](Slab* back) {
            store->bytes_in_use -= elements * sizeof(float);
            store->free[elements].emplace_back(back);
          }};
}

uint64_t SlabPool::bytes_in_use() const { return store_->bytes_in_use; }

}  // namespace poseidon::comm
