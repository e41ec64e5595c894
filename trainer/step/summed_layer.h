#pragma once

#include <vector>

#include "trainer/step/shard_tree.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// A layer whose gradients and statistics are summed by servers. What it contributes and where its
/// sum comes to is the gradient's own memory wherever that is the host's and its order is the
/// canonical one, else a canonical copy in staging memory; with staleness a copy for each step in
/// flight.
class SummedLayer final : public WorkerLayer {
 public:
  SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan, uint32_t index,
              const OwnShards& own);
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t index,
                      const std::vector<comm::Part>& parts);

  std::vector<comm::Contribution> contribute(uint64_t step, int64_t shard, What what) override;
  void give(uint64_t step, const layers::GradientSink* sink) override;
  int64_t slot(uint64_t step) const override { return static_cast<int64_t>(step % steps_); }
  std::span<float> sum(uint32_t tensor, uint64_t step) override;

 private:
  /// One tensor of the plan, where it lies in the net, and its sums over this worker's shards.
  struct Tensor {
    const net::Parameter* parameter = nullptr;  ///< or else a statistic
    const net::Statistic* statistic = nullptr;
    bool direct = false;            ///< its own memory is what is sent and received
    std::vector<ShardTree> trees;   ///< by own part
    std::vector<Buffer> canonical;  ///< unless direct: of the steps in flight
    /// By own part where there are several, of the steps in flight: what was summed.
    std::vector<std::vector<Buffer>> parts;

    std::span<float> values() const {
      return statistic != nullptr ? statistic->contribution : parameter->gradient;
    }
  };

  Tensor make_tensor(const comm::TensorTraffic& planned, const comm::Plan& plan,
                     layers::Updater& updater) const;
  std::vector<Buffer> staging_memory(size_t steps, size_t bytes) const;
  std::span<const float> finished_part(Tensor& tensor, size_t part, uint64_t step);
  void copy_canonical(const Tensor& tensor, std::span<float> to) const;

  net::Net& net_;
  const OwnShards& own_;
  const uint64_t steps_;  ///< in flight
  std::vector<Tensor> tensors_;
};

}  // namespace poseidon::trainer
