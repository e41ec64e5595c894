#include "trainer/step/device_reducer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "comm/plan/plan.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// Three values for each shard. Any other order of addition gives other bits.
std::vector<float> values_of_shard(uint32_t shard) {
  const auto number = static_cast<float>(shard + 1);
  return {1 / number, 1e7F * number, 0.1F + number / 3};
}

/// Reference: the sum over a part by the fixed tree.
std::vector<float> sum_by_tree(comm::Part part) {
  if (part.count == 1) return values_of_shard(part.first);
  const uint32_t left = comm::left_count(part.count);
  std::vector<float> sum = sum_by_tree({part.first, left});
  const std::vector<float> right = sum_by_tree({part.first + left, part.count - left});
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

class SumMemory final : public comm::ExchangeMemory {
 public:
  std::span<float> sum(uint32_t, uint32_t, uint64_t) override { return values; }
  std::span<float> factors(uint32_t, uint32_t, uint64_t) override { return {}; }
  std::vector<float> values = std::vector<float>(3);
};

comm::Plan plan_of_workers(std::vector<comm::AssignedWorker> workers) {
  comm::Plan plan;
  plan.assignment = comm::Assignment(std::move(workers), {comm::AssignedServer{}});
  return plan;
}

/// Adds the contributions of a worker's devices in an order that the seed selects, and stores the
/// sums.
struct Given {
  Given(const comm::Plan& plan, uint32_t rank, size_t devices, unsigned seed)
      : parts(plan, rank, devices, sums) {
    std::vector<comm::Part> own;
    for (const comm::Part& range : shards_of_devices(plan.assignment.shards_of(rank), devices))
      for (const comm::Part& part : comm::parts_within(plan.assignment.all_shards().count, range))
        own.push_back(part);
    std::shuffle(own.begin(), own.end(), std::mt19937(seed));
    for (const comm::Part& part : own) {
      memory.push_back(sum_by_tree(part));
      if (const auto whole = parts.add({.part = part, .values = memory.back()}))
        complete.push_back(*whole);
    }
  }

  SumMemory sums;
  DeviceReducer parts;
  std::deque<std::vector<float>> memory;
  std::vector<DeviceContribution> complete;
};

}  // namespace

TEST_CASE("sums over the devices of a worker have the bits of the fixed tree") {
  for (uint32_t shards = 1; shards < 14; ++shards)
    for (uint32_t first = 0; first < shards; ++first)
      for (uint32_t count = 1; first + count <= shards; ++count) {
        std::vector<comm::AssignedWorker> workers{{.shards = {first, count}}};
        if (first > 0) workers.push_back({.shards = {0, first}, .host = 0, .member = 1});
        if (first + count < shards)
          workers.push_back(
              {.shards = {first + count, shards - first - count}, .host = 0, .member = 2});
        const comm::Plan plan = plan_of_workers(workers);
        for (size_t devices = 1; devices <= std::min<size_t>(count, 5); ++devices) {
          CAPTURE(shards);
          CAPTURE(first);
          CAPTURE(count);
          CAPTURE(devices);
          Given given(plan, 0, devices, shards + count);
          std::vector<comm::Part> got;
          for (const DeviceContribution& part : given.complete) {
            got.push_back(part.part);
            CHECK(std::vector<float>(part.values.begin(), part.values.end()) ==
                  sum_by_tree(part.part));
          }
          std::ranges::sort(got, {}, &comm::Part::first);
          CHECK(got == plan.assignment.parts_of(0));
        }
      }
}

TEST_CASE("the sum over all shards is in the sum buffer, not in a device's buffer") {
  const comm::Plan plan = plan_of_workers({{.shards = {0, 4}}});
  const Given given(plan, 0, 2, 1);
  REQUIRE(given.complete.size() == 1);
  CHECK(given.complete[0].values.data() == given.sums.values.data());
}

TEST_CASE("steps and tensors are summed separately, and factors pass unchanged") {
  const comm::Plan plan = plan_of_workers({{.shards = {0, 3}}, {.shards = {3, 1}, .member = 1}});
  SumMemory sums;
  DeviceReducer parts(plan, 0, 2, sums);
  std::vector<float> one{1, 2, 3}, other{10, 20, 30};
  // The worker sends two parts. Shards 0 and 1 are on one device, shard 2 is on the other.
  CHECK(parts.add({.layer = 1, .step = 4, .part = {0, 2}, .values = one}).has_value());
  CHECK(parts.add({.layer = 1, .step = 4, .part = {2, 1}, .values = other}).has_value());
  DeviceReducer three(plan, 0, 3, sums);
  CHECK_FALSE(three.add({.layer = 1, .step = 4, .part = {0, 1}, .values = one}));
  CHECK_FALSE(three.add({.layer = 1, .step = 5, .part = {1, 1}, .values = one}));
  CHECK_FALSE(three.add({.layer = 2, .step = 4, .part = {1, 1}, .values = one}));
  CHECK_FALSE(three.add({.layer = 1, .tensor = 1, .step = 4, .part = {1, 1}, .values = one}));
  const auto whole = three.add({.layer = 1, .step = 4, .part = {1, 1}, .values = other});
  REQUIRE(whole.has_value());
  CHECK(whole->part == comm::Part{0, 2});
  CHECK(whole->values[2] == 33);
  CHECK(three.add({.layer = 1, .step = 4, .part = {1, 1}}).has_value());
}

TEST_CASE("a device without a shard is refused") {
  CHECK(error_of<ConfigError>([] {
          shards_of_devices({4, 2}, 3);
        }) ==
        "a worker has 2 logical shards for its 3 devices: expected at least one for each "
        "(cluster.logical_shards)");
  CHECK(shards_of_devices({4, 5}, 2) == std::vector<comm::Part>{{4, 3}, {7, 2}});
}
