#pragma once

#include <vector>

#include "trainer/step/stacked_factors.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// A linear layer that gives factors: each worker rebuilds the gradient from those of all shards.
class FactoredLayer final : public WorkerLayer {
 public:
  FactoredLayer(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own);
  static size_t bytes(const comm::Plan& plan, uint32_t index);

  void begin_backward(uint64_t step, int64_t shard) override;
  std::vector<comm::Contribution> contribute(uint64_t step, int64_t shard, What what) override;
  void give(uint64_t step, const layers::GradientSink* sink) override;
  int64_t slot(uint64_t step) const override { return static_cast<int64_t>(step % steps_.size()); }
  std::span<float> factors(uint32_t which, uint64_t step) override;

 private:
  StackedFactors& of_step(uint64_t step) { return steps_[step % steps_.size()]; }

  net::Net& net_;
  const OwnShards& own_;
  const int node_;
  const layers::FactorShape shape_;
  const int64_t samples_;              ///< of the global batch
  std::vector<StackedFactors> steps_;  ///< by step modulo comm::steps_of_factors()
};

}  // namespace poseidon::trainer
