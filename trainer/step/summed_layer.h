#pragma once

#include <vector>

#include "trainer/step/joined_copies.h"
#include "trainer/step/shard_tree.h"
#include "trainer/step/tensor_slots.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// A layer whose gradients and statistics are summed. Contributions and sums are in canonical
/// order. Without staleness, the net's own memory holds them if it is host memory in canonical
/// order. Otherwise staging memory holds copies, one for each step in flight. Contributions also
/// need copies if the device has several shard ranges. With several devices, the first device owns
/// separate buffers for the sums, from which all devices read. One buffer for each step in flight
/// is enough. A sum arrives only after all devices have contributed to its step. Before a device
/// contributes, it has made the update that read the buffer's previous sum.
///
/// If the device does not share host memory, its kernels access only device memory. Copies transfer
/// contributions and sums, so kernels do not wait for the bus.
class SummedLayer final : public WorkerLayer {
 public:
  SummedLayer(net::Net& net, layers::Updater& updater, const comm::Plan& plan, uint32_t index,
              const OwnShards& own, WorkerLayer* first);
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t index, const OwnShards& own);

  std::vector<DeviceContribution> contribute(uint64_t step, int64_t shard, What what) override;
  void deliver(uint64_t step, const layers::GradientSink* sink) override;
  int64_t slot(uint64_t step) const override { return static_cast<int64_t>(step % steps_); }
  std::span<float> sum(uint32_t tensor, uint64_t step) override;

 private:
  /// One tensor of the plan: its memory in the net, and its sums over this device's shards.
  struct Tensor {
    const net::Parameter* parameter = nullptr;  ///< null for a statistic
    const net::Statistic* statistic = nullptr;
    bool gives_own = false;        ///< the contribution is in the net's own memory
    bool takes_own = false;        ///< the sum is received in the net's own memory
    std::vector<ShardTree> trees;  ///< by own shard range
    /// Device memory for the tensor in canonical order. Empty if the net stores the tensor in this
    /// order, or if the device shares host memory.
    Buffer converted;
    /// The tensor in canonical order in device memory, for copies from and to staging memory:
    /// `converted` or the net's own memory. Empty if the device shares host memory.
    std::span<float> copied;

    std::span<float> values() const {
      return statistic != nullptr ? statistic->contribution : parameter->gradient;
    }
    bool is_converted() const { return converted.bytes() > 0; }
  };

  Tensor make_tensor(const comm::TensorTraffic& planned, const comm::Plan& plan,
                     layers::Updater& updater, size_t converted) const;
  std::span<float> finished_part(uint32_t t, size_t part, uint64_t step,
                                 JoinedCopies& copies) const;
  void copy_canonical(const Tensor& tensor, std::span<float> to) const;
  void copy_sums(uint64_t step);

  net::Net& net_;
  const uint32_t index_;
  const OwnShards& own_;
  /// The same layer on the worker's first device; null: this is the first device.
  WorkerLayer* const first_;
  const uint64_t steps_;  ///< maximum number of steps in flight
  std::vector<Tensor> tensors_;
  TensorSlots sums_;  ///< of tensors whose sums neither the net nor the first device owns
  /// By own shard range: the contributions that need separate memory.
  std::vector<TensorSlots> parts_;
};

}  // namespace poseidon::trainer
