#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "layers/update.h"
#include "net/net.h"
#include "trainer/step/arrivals.h"
#include "trainer/step/exchange.h"
#include "trainer/step/hand_overs.h"
#include "trainer/step/worker_layer.h"

namespace poseidon::trainer {

/// One worker of several. The compute thread hands over gradients as they become final and takes
/// sums back; comm::WorkerExchange moves them in the I/O thread. Where they lie is the affair of
/// each layer's WorkerLayer.
class ClusterExchange final : public GradientExchange, public comm::ExchangeMemory {
 public:
  /// Runs a function in the I/O thread. Called in the compute thread or one of the device's.
  using Post = std::function<void(std::function<void()>)>;

  /// For the net of worker `rank`, from step `first_step` on. All must outlive it. Throws
  /// ConfigError when the plan is not for this net.
  ClusterExchange(net::Net& net, layers::Updater& updater, const comm::Plan& plan, uint32_t rank,
                  uint64_t first_step, Post post);

  /// What it takes of memory, bytes: of sums and factors, and where they are put together for the
  /// wire. The net need not have taken any.
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t rank);

  // The compute thread's part. All of these throw JobLost after lose().
  void begin_backward(int64_t shard) override;
  void contribute_statistics(int64_t shard) override;
  void contribute(int layer, int64_t shard) override;
  void release(int layer) override { net_.device().await(sent_[layer_of_node_.at(layer)]); }
  std::optional<int> arrived() override;
  void wait() override { arrivals_.wait(); }
  void give(int layer, int64_t step, const layers::GradientSink* sink) override;
  int64_t slot(int layer, int64_t step) const override {
    return layers_[layer_of_node_.at(layer)]->slot(static_cast<uint64_t>(step));
  }

  /// Called in the compute thread with each contribution.
  void on_contribution(std::function<void()> sign) { sign_ = std::move(sign); }
  /// Called in the compute thread when it has waited for sums for a second, and when it goes on.
  void on_long_wait(std::function<void()> begins, std::function<void()> ends) {
    arrivals_.on_long_wait(std::move(begins), std::move(ends));
  }

  /// Values by index in Parameters::summed_layers(), by layer of the plan.
  std::vector<double> by_layer_of_plan(std::span<const double> of_net) const;

  // The I/O thread's part.
  /// Before anything is contributed.
  void open(uint32_t view, comm::Outlet& outlet);
  comm::WorkerExchange& exchange() { return *exchange_; }
  /// What is awaited from `node`, for messages.
  std::string awaiting(comm::NodeId node) const {
    return exchange_ == nullptr ? "" : exchange_->awaiting(node);
  }
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return layers_[layer]->sum(tensor, step);
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override {
    return layers_[layer]->factors(which, step);
  }

  /// From any thread: whoever waits, or comes to wait, is told.
  void lose(const std::string& why) { arrivals_.lose(why); }

 private:
  struct Given {
    uint32_t layer = 0;
    comm::Contribution contribution;
  };

  /// What is handed to the I/O thread once the device's work has reached an event.
  struct HandOver {
    Event when;
    std::function<void()> task;
  };

  void contribute(std::span<const uint32_t> layers, int64_t shard, WorkerLayer::What what,
                  const Event& made);
  void end_step();
  void hand_over(HandOver all);
  void post_when_done(HandOver all);

  net::Net& net_;
  const comm::Plan& plan_;
  const uint32_t rank_;
  const uint64_t first_step_;
  const Post post_;
  std::function<void()> sign_ = [] {};
  const OwnShards own_;
  const int64_t announced_;                           ///< layers that the backward pass announces
  std::vector<std::unique_ptr<WorkerLayer>> layers_;  ///< of the plan
  std::vector<int> nodes_;                            ///< those layers in the net
  std::map<int, uint32_t> layer_of_node_;
  uint64_t step_;                    ///< under way
  int64_t contributed_ = 0;          ///< layers announced in the last own shard
  std::vector<Event> sent_;          ///< by layer: its gradients have been read
  std::vector<HandOver> held_back_;  ///< without overlap
  std::unique_ptr<comm::WorkerExchange> exchange_;
  Arrivals arrivals_;     ///< layers of the plan
  HandOvers hand_overs_;  ///< to the I/O thread; ends before all else does
};

}  // namespace poseidon::trainer
