#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/arrivals.h"
#include "trainer/step/device_parts.h"
#include "trainer/step/exchange.h"
#include "trainer/step/hand_overs.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// The sums of one device of a worker: hands what its layers give to the worker, and takes back
/// what has arrived there. Where it lies is the affair of each layer's WorkerLayer. Used by the
/// device's compute thread, but for what says otherwise.
class DeviceExchange final : public GradientExchange {
 public:
  /// Takes parts for the sums of the worker, in any thread.
  using Give = std::function<void(const std::vector<DevicePart>&)>;
  /// What a compute thread calls at each contribution, and when it has waited for sums for a
  /// second.
  struct Signs {
    std::function<void()> works = [] {}, waits = [] {};
  };

  /// For a device that has `shards`, of worker `rank`, from step `first_step` on. `first` is that
  /// of the worker's first device, null for itself. All must outlive it. Throws ConfigError when
  /// the plan is not for this net.
  DeviceExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                 const OwnShards& shards, uint64_t first_step, const DeviceExchange* first,
                 Give give, Signs signs);

  // All of these throw JobLost after lose().
  void begin_backward(int64_t shard) override;
  void contribute_statistics(int64_t shard) override;
  void contribute(int layer, int64_t shard) override;
  void release(int layer) override;
  std::optional<int> arrived() override;
  /// Throws what the device has failed by, where that is why.
  void wait() override;
  void give(int layer, int64_t step, const layers::GradientSink* sink) override;
  int64_t slot(int layer, int64_t step) const override {
    return layers_[layer_of_node_.at(layer)]->slot(static_cast<uint64_t>(step));
  }

  /// Values by index in Parameters::summed_layers(), by layer of the plan.
  std::vector<double> by_layer_of_plan(std::span<const double> of_net) const;

  // From any thread.
  /// Of the plan; it says where sums and factors lie.
  WorkerLayer& layer(uint32_t index) const { return *layers_[index]; }
  /// The sums of a layer of the plan are there.
  void has_arrived(uint32_t layer) { arrivals_.push(layer); }
  /// Whoever waits, or comes to wait, is told.
  void lose(const std::string& why) { arrivals_.lose(why); }
  void forget_loss() { arrivals_.forget_loss(); }

 private:
  /// What is handed over once the device's work has reached an event.
  struct HandOver {
    Event when;
    std::vector<DevicePart> parts;
  };

  void contribute(std::span<const uint32_t> layers, int64_t shard, WorkerLayer::What what,
                  const Event& made);
  void end_step();
  void hand_over(HandOver all);
  void give_when_done(HandOver all);

  net::Net& net_;
  const comm::Plan& plan_;
  const Give give_;
  const Signs signs_;
  const OwnShards own_;
  const int64_t announced_;                           ///< layers that the backward pass announces
  std::vector<std::unique_ptr<WorkerLayer>> layers_;  ///< of the plan
  std::vector<int> nodes_;                            ///< those layers in the net
  std::map<int, uint32_t> layer_of_node_;
  uint64_t step_;                    ///< under way
  int64_t contributed_ = 0;          ///< layers announced in the last own shard
  std::vector<Event> sent_;          ///< by layer: its gradients have been read
  std::vector<HandOver> held_back_;  ///< without overlap
  Arrivals arrivals_;                ///< layers of the plan
  HandOvers hand_overs_{[this] { lose("a device has failed"); }};  ///< ends before all else does
};

}  // namespace poseidon::trainer
