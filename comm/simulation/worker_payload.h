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
  /// A view begins.
  void open(std::unique_ptr<WorkerExchange> exchange) {
    exchange_ = std::move(exchange);
    intake_.reset();
  }
  /// The exchange of its last view; null before the first.
  WorkerExchange* exchange() const { return exchange_.get(); }
  /// Values will arrive in this memory; `come` is called when all have arrived.
  void expect(std::vector<std::span<std::byte>> values, std::function<void()> come) {
    intake_.emplace(std::move(values));
    come_ = std::move(come);
  }

  Destination place(NodeId from, const FrameHeader& header) override {
    if (from.role != Role::kCoordinator) return exchange_->place(from, header);
    return intake_ ? intake_->place(header)
                   : Destination::refused("sent values that were not requested");
  }
  void received(NodeId from, const FrameHeader& header) override {
    if (from.role != Role::kCoordinator) return exchange_->received(from, header);
    intake_->received();
    if (intake_->complete()) come_();
  }
  std::string awaiting(NodeId node) const override {
    return exchange_ ? exchange_->awaiting(node) : "";
  }

 private:
  std::unique_ptr<WorkerExchange> exchange_;
  std::optional<TensorIntake> intake_;
  std::function<void()> come_;
};

}  // namespace poseidon::comm
