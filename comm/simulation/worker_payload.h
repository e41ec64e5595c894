#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/tensor_intake.h"
#include "comm/exchange/worker_exchange.h"
#include "comm/membership/payload_receiver.h"

namespace poseidon::comm {

/// The tensors that a simulated worker receives. Peers send sums and factors. The coordinator sends
/// the values of a job that the worker has joined.
class SimulatedWorkerPayload final : public PayloadReceiver {
 public:
  /// Begins a view with its exchange. Values that expect() announced earlier are no longer
  /// accepted.
  void open(std::unique_ptr<WorkerExchange> exchange) {
    exchange_ = std::move(exchange);
    intake_.reset();
  }
  /// The exchange of the worker's last view; null before the first view.
  WorkerExchange* exchange() const { return exchange_.get(); }
  /// Starts to receive values into the memory `values`. Calls `on_complete` when all have arrived.
  void expect(std::vector<std::span<std::byte>> values, std::function<void()> on_complete) {
    intake_.emplace(std::move(values));
    on_complete_ = std::move(on_complete);
  }

  Destination destination(NodeId from, const FrameHeader& header) override {
    if (from.role != Role::kCoordinator) return exchange_->destination(from, header);
    return intake_ ? intake_->destination(header)
                   : Destination::refused("sent values that were not requested");
  }
  std::string received(NodeId from, const FrameHeader& header) override {
    if (from.role != Role::kCoordinator) return exchange_->received(from, header);
    intake_->received();
    if (intake_->complete()) on_complete_();
    return "";
  }
  std::string awaiting(NodeId node) const override {
    return exchange_ ? exchange_->awaiting(node) : "";
  }

 private:
  std::unique_ptr<WorkerExchange> exchange_;
  std::optional<TensorIntake> intake_;
  std::function<void()> on_complete_;
};

}  // namespace poseidon::comm
