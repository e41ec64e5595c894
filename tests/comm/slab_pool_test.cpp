#include "comm/wire/slab_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "comm/wire/wire.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using SlabPtr = std::shared_ptr<SlabPool::Slab>;

/// 20 slabs. Each is filled with its index.
std::vector<SlabPtr> filled(SlabPool& pool, uint64_t elements) {
  std::vector<SlabPtr> slabs;
  for (int i = 0; i < 20; ++i) {
    slabs.push_back(pool.take(elements * sizeof(float)));
    REQUIRE(slabs.back()->values().size() == elements);
    std::ranges::fill(slabs.back()->values(), static_cast<float>(i));
  }
  return slabs;
}

}  // namespace

TEST_CASE("slabs do not overlap, and the memory of freed slabs is reused") {
  for (const uint64_t elements : {kSliceBytes / 4, kSliceBytes / 2, uint64_t{1000}, uint64_t{1}}) {
    CAPTURE(elements);
    SlabPool pool;
    std::vector<SlabPtr> slabs = filled(pool, elements);
    std::set<const float*> places;
    for (size_t i = 0; i < slabs.size(); ++i) {
      places.insert(slabs[i]->values().data());
      CHECK(std::ranges::all_of(slabs[i]->values(),
                                [&](float value) { return value == static_cast<float>(i); }));
    }
    CHECK(pool.bytes_in_use() == 20 * elements * sizeof(float));
    slabs.clear();
    CHECK(pool.bytes_in_use() == 0);
    for (int i = 0; i < 20; ++i) {
      slabs.push_back(pool.take(elements * sizeof(float)));
      places.insert(slabs.back()->values().data());
    }
    CHECK(places.size() == 20);
  }
}

TEST_CASE("slabs may outlive their pool and be freed by any thread") {
  auto pool = std::make_unique<SlabPool>();
  std::vector<SlabPtr> slabs = filled(*pool, kSliceBytes / 4);
  std::jthread other([mine = std::move(slabs)]() mutable { mine.clear(); });
  slabs = filled(*pool, kSliceBytes / 4);
  pool.reset();
  CHECK(slabs[7]->values()[99] == 7);
}
