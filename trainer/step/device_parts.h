#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "comm/exchange/exchange_memory.h"
#include "comm/exchange/layer_sum.h"
#include "comm/plan/shard_parts.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// The logical shards of a worker by device: contiguous, and as even as can be. Throws ConfigError
/// where there are not as many.
std::vector<comm::Part> shards_of_devices(comm::Part worker, size_t devices);

/// What a device gives to the sum of a tensor: one of its parts, in memory that may be added into
/// until the sum has arrived; or the factors of a shard, which lie elsewhere.
struct DevicePart {
  uint32_t layer = 0, tensor = 0;  ///< as the plan counts them
  uint64_t step = 0;
  comm::Part part;
  std::span<float> values = {};

  comm::Contribution contribution() const {
    return {.step = step, .tensor = tensor, .part = part, .values = values};
  }
};

/// Puts together what the devices of one worker give: of two halves of a node of the fixed tree
/// their sum, until it is a part of the worker. So the additions are those of any other split. Any
/// thread: whichever brings the second half adds.
class DeviceParts {
 public:
  /// `sums` is where a sum over all logical shards comes to: that of a worker alone.
  DeviceParts(const comm::Plan& plan, uint32_t rank, size_t devices, comm::ExchangeMemory& sums);

  /// The part of the worker that is complete with this one; none when more of it is to come.
  std::optional<DevicePart> add(DevicePart part);

 private:
  /// Layer, tensor, step, and the node of the tree whose half it is.
  using HalfOf = std::tuple<uint32_t, uint32_t, uint64_t, int32_t>;

  bool is_of_worker(comm::Part part) const;
  std::optional<std::span<float>> other_half(const DevicePart& part, int32_t node);
  DevicePart sum_of(const DevicePart& part, std::span<float> other, comm::Part whole) const;

  const comm::PartTree tree_;
  const std::vector<comm::Part> parts_;  ///< of the worker
  const comm::Part everything_;
  comm::ExchangeMemory& sums_;
  Mutex mutex_;
  std::map<HalfOf, std::span<float>> halves_ GUARDED_BY(mutex_);  ///< that wait for the other one
};

}  // namespace poseidon::trainer
