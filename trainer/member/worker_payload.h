#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/tensor_intake.h"
#include "comm/membership/payload_receiver.h"
#include "trainer/member/flow_trace.h"
#include "trainer/messages/step_message.h"
#include "trainer/state/tensor_store.h"
#include "trainer/step/cluster_exchange.h"

namespace poseidon::trainer {

/// Receives a worker's payload: initial values from the coordinator, then sums and factors for the
/// exchange. Used by the I/O thread.
class WorkerPayload final : public comm::PayloadReceiver {
 public:
  /// Called as initial values arrive.
  struct Listener {
    std::function<void(int64_t index)> tensor_came;  ///< by index in the list of tensors
    std::function<void()> all_came;
  };

  explicit WorkerPayload(Listener listener) : listener_(std::move(listener)) {}

  /// Prepares to receive initial values into `values`. The coordinator may announce them from now
  /// on.
  void expect(std::shared_ptr<TensorStore> values) {
    values_ = std::move(values);
    intake_.reset();
  }
  /// Handles the note in which the coordinator announces the tensors that it will send. Throws
  /// ConfigError for an unknown tensor, if no tensors are expected, or if they are already
  /// announced.
  void announce(const comm::Note& note);
  /// Connects the payload to the exchange of a view. Call it after the initial values are set,
  /// before peers send frames. All arguments must stay valid until close(). `trace`: record the
  /// frames.
  void open(const comm::Plan& plan, ClusterExchange& exchange, bool trace, uint32_t view,
            comm::Outlet& peers);

  /// Disconnects the payload from the exchange at the end of a view.
  void close();
  /// Whether the payload is connected to an exchange; false between two views.
  bool is_open() const { return exchange_ != nullptr; }

  comm::Destination destination(comm::NodeId from, const comm::FrameHeader& header) override;
  std::string received(comm::NodeId from, const comm::FrameHeader& header) override;
  std::string awaiting(comm::NodeId node) const override;

  /// The bytes moved since the last call in this view; zeros between two views.
  SchemeBytes newly_moved();
  /// The bytes moved in this view. Requires is_open().
  const std::vector<comm::LayerBytes>& moved() const {
    return exchange_->exchange().bytes_of_layers();
  }
  /// The trace of the frames in this view; null unless they are recorded.
  const FlowTrace* trace() const { return trace_.get(); }

 private:
  void notify_when_complete() const;

  const Listener listener_;
  std::shared_ptr<TensorStore> values_;
  std::optional<comm::TensorIntake> intake_;  ///< receives the announced values
  const comm::Plan* plan_ = nullptr;
  ClusterExchange* exchange_ = nullptr;  ///< exchange_ and plan_ are null unless is_open()
  std::unique_ptr<FlowTrace> trace_;
  SchemeBytes reported_;
};

}  // namespace poseidon::trainer
