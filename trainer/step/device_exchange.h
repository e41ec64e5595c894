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
#include "trainer/step/completion_queue.h"
#include "trainer/step/device_reducer.h"
#include "trainer/step/exchange.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// The first step of an exchange, and the seed of its job.
struct ExchangeStart {
  uint64_t first_step = 0;
  uint64_t seed = 0;  ///< for stochastic rounding
};

/// The sums of one device of a worker. It passes the contributions of the device's layers to the
/// exchange of the worker, and reads the arrived sums. A WorkerLayer for each layer provides the
/// memory of the layer's contributions and sums. Used by the device's compute thread, except where
/// noted.
class DeviceExchange final : public GradientExchange {
 public:
  /// Receives contributions to the sums of the worker. Called in any thread.
  using Deliver = std::function<void(const std::vector<DeviceContribution>&)>;
  /// The compute thread calls `waits` after it has waited for sums for one second. It calls `works`
  /// at each contribution, and when a wait of more than one second ends with a sum.
  struct ActivityCallbacks {
    std::function<void()> works = [] {}, waits = [] {};
  };

  /// The exchange of the device with `shards`. `first` is the exchange
  /// of the worker's first device; null if this is the first device. `net`, `updater`, `plan` and
  /// `first` must outlive this object. Throws ConfigError if the plan is not for this net.
  DeviceExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan,
                 const OwnShards& shards, const ExchangeStart& start, const DeviceExchange* first,
                 Deliver deliver, ActivityCallbacks activity);

  // Once set_failed() has been called, these functions throw JobFailed: begin_backward(),
  // contribute_statistics(), contribute() and wait().
  void begin_backward(int64_t shard) override;
  void contribute_statistics(int64_t shard) override;
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override;
  void release(int layer) override;
  std::optional<int> arrived() override;
  /// Blocks until arrived() can return a layer. Throws JobFailed; if the device itself has failed,
  /// throws the device's error instead.
  void wait() override;
  void deliver(int layer, int64_t step, const layers::GradientSink* sink) override;
  int64_t slot(int layer, int64_t step) const override {
    return layers_[layer_of_node_.at(layer)]->slot(static_cast<uint64_t>(step));
  }

  /// Reorders values from the order of Parameters::summed_layers() to the order of the plan's
  /// layers.
  std::vector<double> by_layer_of_plan(std::span<const double> of_net) const;

  // Called by any thread.
  /// Layer `index` of the plan. It provides the memory of sums and factors.
  WorkerLayer& layer(uint32_t index) const { return *layers_[index]; }
  /// Queues layer `layer` of the plan for arrived(): all its sums of a step have arrived.
  void has_arrived(uint32_t layer) { arrivals_.push(layer); }
  /// Marks the job as failed and wakes wait(). clear_failure() undoes it.
  void set_failed(const std::string& why) { arrivals_.set_failed(why); }
  void clear_failure() { arrivals_.clear_failure(); }

 private:
  /// Contributions that are delivered once the device has reached an event.
  struct PendingDelivery {
    Event when;
    std::vector<DeviceContribution> parts;
  };

  void contribute(std::span<const uint32_t> layers, int64_t shard, WorkerLayer::What what,
                  const Event& made);
  void end_step();
  void enqueue_delivery(PendingDelivery all);
  void deliver_when_done(PendingDelivery all);

  net::Net& net_;
  const comm::Plan& plan_;
  const Deliver deliver_;
  const ActivityCallbacks activity_;
  const OwnShards own_;
  const uint64_t seed_;
  const int64_t announced_;  ///< number of layers whose gradients the backward pass announces
  std::vector<std::unique_ptr<WorkerLayer>> layers_;  ///< in order of the plan
  std::vector<int> nodes_;  ///< by layer of the plan: index of the layer in the net
  std::map<int, uint32_t> layer_of_node_;
  uint64_t step_;            ///< step in progress
  int64_t contributed_ = 0;  ///< layers that have contributed all gradients of the step
  std::vector<Event> sent_;  ///< by layer of the plan: event after the last copy of contributions
  std::vector<PendingDelivery> held_back_;  ///< without overlap: delivered at the end of the step
  Arrivals arrivals_;                       ///< queue of layer indices of the plan
  /// Declared last, so it is destroyed first: its tasks use the other data members.
  CompletionQueue completion_queue_{[this] { set_failed("a device has failed"); }};
};

}  // namespace poseidon::trainer
