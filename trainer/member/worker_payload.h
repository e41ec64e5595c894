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

/// The payload that reaches a worker: first values from the coordinator, then sums and factors,
/// which the exchange takes. Used by the I/O thread.
class WorkerPayload final : public comm::PayloadReceiver {
 public:
  /// Told of first values as they come.
  struct Listener {
    std::function<void(int64_t index)> tensor_came;  ///< by its index in the list of tensors
    std::function<void()> all_came;
  };

  explicit WorkerPayload(Listener listener) : listener_(std::move(listener)) {}

  /// From now on the coordinator may say which first values it sends.
  void expect(std::shared_ptr<TensorStore> values) {
    values_ = std::move(values);
    intake_.reset();
  }
  /// The note by which the coordinator says which it sends. Throws ConfigError when there are none
  /// such, or they are not expected.
  void announce(const comm::Note& note);
  /// First values are in use, and frames of peers may come. All must outlive it; `trace`: frames
  /// are recorded.
  void open(const comm::Plan& plan, ClusterExchange& exchange, bool trace, uint32_t view,
            comm::Outlet& peers);

  /// The view is over: its peers have gone, and the exchange goes.
  void close();
  /// Whether there are peers: between two views there are none.
  bool is_open() const { return exchange_ != nullptr; }

  comm::Placement place(comm::NodeId from, const comm::FrameHeader& header) override;
  void received(comm::NodeId from, const comm::FrameHeader& header) override;
  std::string awaiting(comm::NodeId node) const override;

  /// The bytes that were moved since the last call, in this view.
  SchemeBytes newly_moved();
  /// Those of the view so far. Where it is open.
  const std::vector<comm::LayerBytes>& moved() const {
    return exchange_->exchange().bytes_of_layers();
  }
  /// Null unless frames are recorded.
  const FlowTrace* trace() const { return trace_.get(); }

 private:
  void tell_when_complete() const;

  const Listener listener_;
  std::shared_ptr<TensorStore> values_;
  std::optional<comm::TensorIntake> intake_;  ///< of those that are announced
  const comm::Plan* plan_ = nullptr;
  ClusterExchange* exchange_ = nullptr;  ///< null unless open, as the one before
  std::unique_ptr<FlowTrace> trace_;
  SchemeBytes reported_;
};

}  // namespace poseidon::trainer
