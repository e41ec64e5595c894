#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "trainer/step/device_exchange.h"

namespace poseidon::trainer {

/// The sums of one worker, of several or of several devices: puts together what its devices give,
/// hands that to comm::WorkerExchange, which moves it, and says to all devices what has arrived.
/// Sums and factors lie where the layers of the first device say, from where all devices read.
class ClusterExchange final : public comm::ExchangeMemory {
 public:
  /// Runs a function in the I/O thread.
  using Post = std::function<void(std::function<void()>)>;

  /// Of worker `rank` with so many devices, from step `first_step` on. All must outlive it.
  ClusterExchange(const comm::Plan& plan, uint32_t rank, size_t devices, uint64_t first_step,
                  Post post);

  /// What it takes of memory with its devices, bytes: of sums and factors, and where they are put
  /// together for the wire. The net need not have taken any.
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t rank, size_t devices);

  /// The end of a device, which this must outlive; that of the first one is made first, and ends
  /// last. Called in the device's thread.
  std::unique_ptr<GradientExchange> make_end(size_t device, net::Net& net,
                                             layers::Updater& updater);
  /// What the first device's compute thread calls. Set before its end is made.
  void watch(DeviceExchange::Signs signs) { signs_ = std::move(signs); }
  /// Values by index in Parameters::summed_layers(), by layer of the plan.
  std::vector<double> by_layer_of_plan(std::span<const double> of_net) const {
    return devices_[0]->by_layer_of_plan(of_net);
  }

  // The I/O thread's part.
  /// Once all ends are made, and before anything is contributed.
  void open(uint32_t view, comm::Outlet& outlet);
  /// The peers have gone: what is contributed from now on goes nowhere.
  void close() { exchange_.reset(); }
  /// Where it is open.
  comm::WorkerExchange& exchange() { return *exchange_; }
  /// What is awaited from `node`, for messages.
  std::string awaiting(comm::NodeId node) const {
    return exchange_ == nullptr ? "" : exchange_->awaiting(node);
  }

  // From any thread, once all ends are made.
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return devices_[0]->layer(layer).sum(tensor, step);
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override {
    return devices_[0]->layer(layer).factors(which, step);
  }
  /// Whoever waits, or comes to wait, is told.
  void lose(const std::string& why);
  /// Takes lose() back, so that the sums which had arrived by then can still be used.
  void forget_loss();

 private:
  void take(const std::vector<DevicePart>& given);

  const comm::Plan& plan_;
  const uint32_t rank_;
  const uint64_t first_step_;
  const Post post_;
  DeviceExchange::Signs signs_;
  DeviceParts parts_;
  std::vector<DeviceExchange*> devices_;
  std::unique_ptr<comm::WorkerExchange> exchange_;
};

/// The sums of a worker alone that has several devices: nothing goes anywhere, and whichever thread
/// contributes does what the I/O thread would.
class DevicesAlone final : public comm::Outlet {
 public:
  DevicesAlone(const comm::Plan& plan, size_t devices, uint64_t first_step);

  ClusterExchange& exchange() { return exchange_; }
  /// Once all ends are made.
  void open() { exchange_.open(0, *this); }
  void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
            comm::Priority priority) override;

 private:
  Mutex mutex_;
  ClusterExchange exchange_;
};

}  // namespace poseidon::trainer
