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

/// Splits the logical shards of a worker among its devices. The ranges are contiguous, and their
/// sizes differ by one at most. Throws ConfigError if there are fewer shards than devices.
std::vector<comm::Part> shards_of_devices(comm::Part worker, size_t devices);

/// A contribution of a device to the sum of a tensor: the sum of a shard range. The exchange may
/// add other contributions into `values` until the full sum has arrived. For an SFB layer `values`
/// is empty: the contribution represents the factors of one shard (comm::ExchangeMemory::factors).
/// `rounded` replaces `values` after round_contribution().
struct DeviceContribution {
  uint32_t layer = 0, tensor = 0;  ///< indices in the plan
  uint64_t step = 0;
  comm::Part part;
  std::span<float> values = {};
  comm::IntegerBlocks rounded = {};

  comm::Contribution contribution() const {
    return {.step = step, .tensor = tensor, .part = part, .values = values, .rounded = rounded};
  }
};

/// Rounds the values of a contribution if the plan's wire format rounds each shard alone. The
/// memory of the values is free afterwards.
void round_contribution(const comm::Plan& plan, uint64_t seed, DeviceContribution& contribution);

/// Combines the contributions of one worker's devices. It adds the two halves of a node of the
/// fixed tree when both exist, until the node is one of the worker's shard ranges. So the order of
/// additions does not depend on the number of devices. Any thread may call it. The thread that
/// delivers the second half adds both halves.
class DeviceReducer {
 public:
  /// `sums` provides the memory for sums over all logical shards. Only a single worker computes
  /// such sums. `sums` must outlive this object.
  DeviceReducer(const comm::Plan& plan, uint32_t rank, size_t devices, comm::ExchangeMemory& sums);

  /// Combines `part` with the halves that are stored. Returns the sum over one of the worker's
  /// shard ranges if `part` completes this range; otherwise nullopt. Returns factors and rounded
  /// contributions unchanged.
  std::optional<DeviceContribution> add(DeviceContribution part);

 private:
  /// Layer, tensor, step, and the tree index of the half's parent.
  using HalfOf = std::tuple<uint32_t, uint32_t, uint64_t, int32_t>;

  bool is_of_worker(comm::Part part) const;
  std::optional<std::span<float>> other_half(const DeviceContribution& part, int32_t node);
  DeviceContribution sum_of(const DeviceContribution& part, std::span<float> other,
                            comm::Part whole) const;

  const comm::PartTree tree_;
  const std::vector<comm::Part> parts_;  ///< shard ranges of the worker
  const comm::Part everything_;
  comm::ExchangeMemory& sums_;
  Mutex mutex_;
  /// Halves whose other half is missing.
  std::map<HalfOf, std::span<float>> halves_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::trainer
