#pragma once

#include <optional>
#include <vector>

#include "trainer/step/stacked_factors.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// A layer that produces sufficient factors (SFB). Each device rebuilds the gradient from
/// the factors of all shards. All factors, also those of peers, are in staging memory of the
/// worker's first device. The memory holds the factors of several steps (comm::steps_of_factors),
/// because a device or a peer may be some steps ahead.
class FactoredLayer final : public WorkerLayer {
 public:
  FactoredLayer(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own,
                WorkerLayer* first);
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own);

  void begin_backward(uint64_t step, int64_t shard) override;
  std::vector<DeviceContribution> contribute(uint64_t step, int64_t shard, What what) override;
  void deliver(uint64_t step, const layers::GradientSink* sink) override;
  int64_t slot(uint64_t step) const override;
  std::span<float> factors(uint32_t which, uint64_t step) override;

 private:
  const StackedFactors& of_step(uint64_t step) const;

  net::Net& net_;
  const uint32_t index_;
  const OwnShards& own_;
  const FactoredLayer* const first_;  ///< the same layer on the worker's first device
  const int node_;
  const layers::FactorShape shape_;
  const int64_t samples_;              ///< number of samples of the global batch
  std::vector<StackedFactors> steps_;  ///< by step modulo comm::steps_of_factors()
  /// On a device with separate memory: the factors of one logical shard. A copy on the send stream
  /// moves them to staging memory while the passes continue.
  std::optional<StackedFactors> written_;
};

}  // namespace poseidon::trainer
