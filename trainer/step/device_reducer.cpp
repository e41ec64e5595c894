#include "trainer/step/device_reducer.h"

#include <algorithm>

#include "comm/plan/chunks.h"
#include "comm/wire/codec.h"
#include "core/error.h"
#include "core/even_parts.h"

namespace poseidon::trainer {

namespace {

/// Splits all logical shards into ranges: one for each device of the worker, the shards before the
/// worker's shards, and the shards after them.
std::vector<comm::Part> ranges_around(comm::Part worker, size_t devices, comm::Part all) {
  std::vector<comm::Part> ranges = shards_of_devices(worker, devices);
  const uint32_t end = worker.first + worker.count;
  if (worker.first > 0) ranges.push_back({0, worker.first});
  if (end < all.count) ranges.push_back({end, all.count - end});
  return ranges;
}

}  // namespace

std::vector<comm::Part> shards_of_devices(comm::Part worker, size_t devices) {
  if (worker.count < devices)
    throw ConfigError(text("a worker has ", worker.count, " logical shards for its ", devices,
                           " devices: expected at least one for each (cluster.logical_shards)"));
  std::vector<comm::Part> all;
  for (size_t device = 0; device < devices; ++device) {
    const IndexRange own =
        even_range(worker.count, static_cast<int64_t>(devices), static_cast<int64_t>(device));
    all.push_back(
        {worker.first + static_cast<uint32_t>(own.first), static_cast<uint32_t>(own.count)});
  }
  return all;
}

void round_contribution(const comm::Plan& plan, uint64_t seed, DeviceContribution& contribution) {
  const comm::TensorTraffic& tensor =
      plan.layers[contribution.layer].traffic.tensors[contribution.tensor];
  if (contribution.values.empty() || !comm::rounds_shards(plan.wire, tensor)) return;
  contribution.rounded =
      comm::rounded_shard(plan, seed, contribution.layer, contribution.tensor, contribution.step,
                          contribution.part.first, contribution.values);
  contribution.values = {};
}

DeviceReducer::DeviceReducer(const comm::Plan& plan, uint32_t rank, size_t devices,
                             comm::ExchangeMemory& sums)
    : tree_(ranges_around(
          plan.assignment.shards_of(rank),
          plan.wire == comm::WireFormat::kInt8 ? plan.assignment.shards_of(rank).count : devices,
          plan.assignment.all_shards())),
      parts_(plan.assignment.parts_of(rank)),
      everything_(plan.assignment.all_shards()),
      sums_(sums) {}

bool DeviceReducer::is_of_worker(comm::Part part) const {
  return std::ranges::find(parts_, part) != parts_.end();
}

std::optional<DeviceContribution> DeviceReducer::add(DeviceContribution part) {
  if (part.values.empty()) return part;  // factors, or rounded
  int32_t node = tree_.leaf_of(part.part);
  check(node >= 0, "a device contributes only its own parts");
  while (!is_of_worker(part.part)) {
    node = tree_.nodes()[static_cast<size_t>(node)].parent;
    const std::optional<std::span<float>> other = other_half(part, node);
    if (!other) return std::nullopt;
    part = sum_of(part, *other, tree_.nodes()[static_cast<size_t>(node)].part);
  }
  return part;
}

/// Removes and returns the other half of tree node `node` if it is stored. Otherwise stores `part`
/// and returns nullopt.
std::optional<std::span<float>> DeviceReducer::other_half(const DeviceContribution& part,
                                                          int32_t node) {
  MutexLock lock(mutex_);
  const auto [half, is_first] =
      halves_.try_emplace({part.layer, part.tensor, part.step, node}, part.values);
  if (is_first) return std::nullopt;
  const std::span<float> other = half->second;
  halves_.erase(half);
  return other;
}

/// Returns the sum of the two halves of `whole`. Addition of two floats is commutative, so either
/// half may come first. A device neither reads nor writes its contribution until the sum has
/// arrived. So the memory of one half can hold the sum until the sum is sent. A sum over all shards
/// is complete without other workers. Such a sum has separate memory, because some devices may read
/// it while others already write contributions to the next step.
DeviceContribution DeviceReducer::sum_of(const DeviceContribution& part, std::span<float> other,
                                         comm::Part whole) const {
  DeviceContribution sum = part;
  sum.part = whole;
  if (whole == everything_) {
    sum.values = sums_.sum(part.layer, part.tensor, part.step);
    std::ranges::copy(part.values, sum.values.begin());
  }
  comm::add_into(sum.values, other);
  return sum;
}

}  // namespace poseidon::trainer
