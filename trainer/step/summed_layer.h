#pragma once

#include <vector>

#include "trainer/step/shard_tree.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// A layer whose gradients and statistics are added. What it contributes and where its sum comes to
/// is the gradient's own memory wherever that is the host's and its order is the canonical one,
/// else a canonical copy in staging memory; with staleness a copy for each step in flight. Of
/// several devices' layers the first has memory apart for the sums, from which all read: of as many
/// steps as without, since a sum comes only when all devices have contributed to its step, and so
/// have made the update by the one that lay there before.
class SummedLayer final : public WorkerLayer {
 public:
  SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan, uint32_t index,
              const OwnShards& own, WorkerLayer* first);
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own);

  std::vector<DevicePart> contribute(uint64_t step, int64_t shard, What what) override;
  void give(uint64_t step, const layers::GradientSink* sink) override;
  int64_t slot(uint64_t step) const override { return static_cast<int64_t>(step % steps_); }
  std::span<float> sum(uint32_t tensor, uint64_t step) override;

 private:
  /// One tensor of the plan, where it lies in the net, and its sums over this device's shards.
  struct Tensor {
    const net::Parameter* parameter = nullptr;  ///< or else a statistic
    const net::Statistic* statistic = nullptr;
    bool gives_own = false;        ///< its own memory is what is contributed
    bool takes_own = false;        ///< its own memory is where its sum comes to
    std::vector<ShardTree> trees;  ///< by own part
    std::vector<Buffer> sums;      ///< unless they come elsewhere: of the steps in flight
    /// By own part, of the steps in flight: what is contributed, unless it lies elsewhere.
    std::vector<std::vector<Buffer>> parts;

    std::span<float> values() const {
      return statistic != nullptr ? statistic->contribution : parameter->gradient;
    }
  };

  Tensor make_tensor(const comm::TensorTraffic& planned, const comm::Plan& plan,
                     layers::Updater& updater) const;
  std::vector<Buffer> staging_memory(size_t steps, size_t bytes) const;
  std::span<float> finished_part(Tensor& tensor, size_t part, uint64_t step);
  void copy_canonical(const Tensor& tensor, std::span<float> to) const;

  net::Net& net_;
  const uint32_t index_;
  const OwnShards& own_;
  WorkerLayer* const first_;  ///< of the worker's first device; null: this one
  const uint64_t steps_;      ///< in flight
  std::vector<Tensor> tensors_;
};

}  // namespace poseidon::trainer
