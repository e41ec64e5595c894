#include "trainer/step/shard_tree.h"

#include <doctest/doctest.h>

#include "core/cpu/cpu_device.h"
#include "core/philox.h"
#include "layers/cpu/update.h"

using namespace poseidon;

namespace {

/// Reference: the sum of shards first .. first + count - 1, by the definition of the tree.
float tree_sum(const std::vector<float>& shards, size_t first, size_t count) {
  if (count == 1) return shards[first];
  const size_t left = std::bit_floor(count - 1);
  return tree_sum(shards, first, left) + tree_sum(shards, first + left, count - left);
}

}  // namespace

TEST_CASE("shards added one after another are summed by the fixed tree") {
  cpu::CpuDevice device(1);
  const auto updater = layers::cpu::make_cpu_updater(device.team());
  RandomStream random(5, RandomPurpose::kInitialization, 0, 0);
  for (int64_t count = 1; count <= 40; ++count) {
    // Values of very different magnitude, so that another order of addition gives other bits.
    std::vector<float> shards(static_cast<size_t>(count));
    for (float& value : shards)
      value = random.next_uniform(-1, 1) * static_cast<float>(1u << random.next_below(20));
    trainer::ShardTree tree(device, *updater, 3, count);
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<float> values;
      for (int64_t shard = 0; shard < count; ++shard) {
        values.assign(3, shards[static_cast<size_t>(shard)]);
        tree.add(shard, values);
      }
      CAPTURE(count);
      CHECK(values == std::vector<float>(3, tree_sum(shards, 0, shards.size())));
    }
  }
}
