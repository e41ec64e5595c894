#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "trainer/step/device_exchange.h"

namespace poseidon::trainer {

/// The sums of one worker in a job with several workers or several devices. It combines the
/// contributions of the worker's devices and passes them to comm::WorkerExchange, which exchanges
/// them with other nodes. It notifies all devices when the sums of a layer have arrived. The layers
/// of the first device own the memory of sums and factors, which all devices read.
class ClusterExchange final : public comm::ExchangeMemory {
 public:
  /// Runs a function in the I/O thread. A single worker has no I/O thread: it runs the function
  /// immediately, under a lock.
  using Post = std::function<void(std::function<void()>)>;

  /// For worker `rank` with `devices` devices. `plan` must outlive this object.
  ClusterExchange(const comm::Plan& plan, uint32_t rank, size_t devices, const ExchangeStart& start,
                  Post post);

  /// Bytes of memory of the exchange on all `devices`: contributions, sums, factors, and staging
  /// memory for the wire. The net need not have allocated its memory.
  static size_t bytes(net::Net& net, const comm::Plan& plan, uint32_t rank, size_t devices);

  /// Creates the exchange of one device. The ClusterExchange must outlive the result. Create the
  /// exchange of device 0 first and destroy it last. Called in the device's thread.
  std::unique_ptr<GradientExchange> make_end(size_t device, net::Net& net,
                                             layers::Updater& updater);
  /// Sets the callbacks that the first device's compute thread calls. Call it before the exchange
  /// of device 0 is created.
  void watch(DeviceExchange::ActivityCallbacks activity) { activity_ = std::move(activity); }
  /// Reorders values from the order of Parameters::summed_layers() to the order of the plan's
  /// layers.
  std::vector<double> by_layer_of_plan(std::span<const double> of_net) const {
    return devices_[0]->by_layer_of_plan(of_net);
  }

  // Called by the I/O thread, if the worker has one.
  /// Starts the exchange with the peers for this view. Call open() after the exchanges of all
  /// devices exist and before the first contribution. `outlet` must stay valid until close().
  void open(uint32_t view, comm::Outlet& outlet);
  /// Ends the exchange with the peers. Later contributions are dropped.
  void close() { exchange_.reset(); }
  /// Valid only between open() and close().
  comm::WorkerExchange& exchange() { return *exchange_; }
  /// Describes the data expected from `node`, for messages; "" if the exchange is not open.
  std::string awaiting(comm::NodeId node) const {
    return exchange_ == nullptr ? "" : exchange_->awaiting(node);
  }

  // Called by any thread after the exchanges of all devices exist.
  std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) override {
    return devices_[0]->layer(layer).sum(tensor, step);
  }
  std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) override {
    return devices_[0]->layer(layer).factors(which, step);
  }
  /// Marks the job as failed for all devices: until clear_failure(), their waits and contributions
  /// throw JobFailed.
  void set_failed(const std::string& why);
  /// Undoes set_failed(), so that the sums that arrived before the failure can still be used.
  void clear_failure();

 private:
  void take(const std::vector<DeviceContribution>& given);

  const comm::Plan& plan_;
  const uint32_t rank_;
  const ExchangeStart start_;
  const Post post_;
  DeviceExchange::ActivityCallbacks activity_;
  DeviceReducer parts_;
  std::vector<DeviceExchange*> devices_;
  std::unique_ptr<comm::WorkerExchange> exchange_;
};

/// The sums of a single worker with several devices, or with a wire format that rounds each shard.
/// It sends nothing and has no I/O thread: the thread that delivers a contribution adds it.
class SingleWorkerExchange final : public comm::Outlet {
 public:
  SingleWorkerExchange(const comm::Plan& plan, size_t devices, const ExchangeStart& start);

  /// Whether a single worker needs this exchange. Otherwise it uses LocalExchange.
  static bool is_needed(const comm::Plan& plan, size_t devices) {
    return devices > 1 || plan.wire == comm::WireFormat::kInt8;
  }

  ClusterExchange& exchange() { return exchange_; }
  /// Starts the exchange. Call it after the exchanges of all devices exist.
  void open() { exchange_.open(0, *this); }
  void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
            comm::Priority priority) override;

 private:
  Mutex mutex_;
  ClusterExchange exchange_;
};

}  // namespace poseidon::trainer
