#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/device_parts.h"

namespace poseidon::trainer {

/// The logical shards of one device of a worker, which counts them from 0.
struct OwnShards {
  OwnShards(const comm::Plan& plan, uint32_t rank, size_t device, size_t devices);

  /// The index of the part that a shard is in.
  size_t part_of(int64_t shard) const;
  /// The number of a shard among those of all workers.
  uint32_t number_of(int64_t shard) const { return all.first + static_cast<uint32_t>(shard); }
  bool is_last(int64_t shard) const { return shard + 1 == static_cast<int64_t>(all.count); }

  comm::Part all;
  std::vector<comm::Part> parts;   ///< what the device can sum of them
  std::vector<int64_t> first_row;  ///< the first sample of each in the global batch
  bool is_first;                   ///< device of its worker
  bool is_only;                    ///< device of its worker
};

/// One layer of the plan on one device: what it contributes to a step, and where its sums come to,
/// which is memory of the worker's first device. There is one for each layer, of the kind that the
/// layer's scheme wants.
class WorkerLayer {
 public:
  /// What of a layer is contributed: its statistics first, then its gradients.
  enum class What : uint8_t { kStatistics, kGradients };

  virtual ~WorkerLayer() = default;

  /// The backward pass of a shard begins.
  virtual void begin_backward(uint64_t, int64_t) {}
  /// Takes a shard's values from the net's memory, which they may leave after the call, and returns
  /// what is complete with them.
  virtual std::vector<DevicePart> contribute(uint64_t step, int64_t shard, What what) = 0;
  /// Hands over the layer's sums of a step, as GradientExchange::give.
  virtual void give(uint64_t step, const layers::GradientSink* sink) = 0;
  /// As GradientExchange::slot.
  virtual int64_t slot(uint64_t step) const = 0;

  // As comm::ExchangeMemory, of this layer; a layer has one of the two.
  virtual std::span<float> sum(uint32_t tensor, uint64_t step);
  virtual std::span<float> factors(uint32_t which, uint64_t step);
};

/// Makes layer `index` of the plan. `first` is the same one of the worker's first device, null for
/// that. All must outlive it. Throws ConfigError when the net has no such layer.
std::unique_ptr<WorkerLayer> make_worker_layer(net::Net& net, layers::Updater& updater,
                                               const comm::Plan& plan, uint32_t index,
                                               const OwnShards& own, WorkerLayer* first);
/// The memory, in bytes, that it takes. The net need not have taken any.
size_t bytes_of_worker_layer(net::Net& net, const comm::Plan& plan, uint32_t index,
                             const OwnShards& own);

/// The one of `all` with this name, or null.
template <class Range>
auto find_named(Range&& all, const std::string& name) -> decltype(&*all.begin()) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The layer of the net that has this tensor of a plan. Throws ConfigError when there is none.
int layer_of_tensor(net::Net& net, const std::string& name);

}  // namespace poseidon::trainer
