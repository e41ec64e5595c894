#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/device_reducer.h"

namespace poseidon::trainer {

/// The logical shards of one device of a worker. The device counts its shards from 0.
struct OwnShards {
  OwnShards(const comm::Plan& plan, uint32_t rank, size_t device, size_t devices);

  /// The index in `parts` of the range that contains a shard.
  size_t part_of(int64_t shard) const;
  /// The global number of a shard, counted over all workers.
  uint32_t number_of(int64_t shard) const { return all.first + static_cast<uint32_t>(shard); }
  bool is_last(int64_t shard) const { return shard + 1 == static_cast<int64_t>(all.count); }

  comm::Part all;
  /// The largest nodes of the fixed tree within `all`. The device computes a sum for each of them.
  /// With wire format "int8" these are the single shards, because each shard is rounded alone.
  std::vector<comm::Part> parts;
  std::vector<int64_t> first_row;  ///< by own shard: index of its first sample in the global batch
  bool is_first;                   ///< the first device of its worker
  bool is_only;                    ///< the only device of its worker
};

/// One layer of the plan on one device. It contributes to the sums of a step, and provides the
/// memory of the sums, which the worker's first device owns. The layer's scheme determines the
/// subclass.
class WorkerLayer {
 public:
  /// The kind of a contribution. Statistics come before gradients.
  enum class What : uint8_t { kStatistics, kGradients };

  virtual ~WorkerLayer() = default;

  /// Prepares the layer for the backward pass of a shard: if it produces factors, sets their
  /// memory.
  virtual void begin_backward(uint64_t, int64_t) {}
  /// Adds a shard's statistics or gradients to this device's sums, or copies the shard's factors.
  /// Statistics and gradients are in the net's memory, which the layer's next pass may overwrite.
  /// Returns the contributions that are complete after this shard.
  virtual std::vector<DeviceContribution> contribute(uint64_t step, int64_t shard, What what) = 0;
  /// Delivers the layer's sums of a step. See GradientExchange::deliver.
  virtual void deliver(uint64_t step, const layers::GradientSink* sink) = 0;
  /// See GradientExchange::slot.
  virtual int64_t slot(uint64_t step) const = 0;

  // The comm::ExchangeMemory of this layer. A layer has sums or factors, not both.
  virtual std::span<float> sum(uint32_t tensor, uint64_t step);
  virtual std::span<float> factors(uint32_t which, uint64_t step);
};

/// Creates layer `index` of the plan. `first` is the same layer on the worker's first device; null
/// if this is the first device. All arguments must outlive the layer. Throws ConfigError if the net
/// has no such layer.
std::unique_ptr<WorkerLayer> make_worker_layer(net::Net& net, layers::Updater& updater,
                                               const comm::Plan& plan, uint32_t index,
                                               const OwnShards& own, WorkerLayer* first);
/// Bytes of memory of the layer. The net need not have allocated its memory.
size_t bytes_of_worker_layer(net::Net& net, const comm::Plan& plan, uint32_t index,
                             const OwnShards& own);

/// The element of `all` with this name, or null.
template <class Range>
auto find_named(Range&& all, const std::string& name) -> decltype(&*all.begin()) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The layer of the net that contains this tensor of a plan. Throws ConfigError if there is none.
int layer_of_tensor(net::Net& net, const std::string& name);

}  // namespace poseidon::trainer
