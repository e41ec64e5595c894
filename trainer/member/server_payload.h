#pragma once

#include <memory>
#include <string>

#include "comm/exchange/server_shard.h"
#include "comm/membership/coordinator_link.h"
#include "comm/membership/payload_receiver.h"
#include "comm/plan/plan.h"
#include "trainer/member/flow_trace.h"

namespace poseidon::trainer {

/// Receives the contributions of workers, and passes them to the server shard, which adds them.
/// Used by the I/O thread.
class ServerPayload final : public comm::PayloadReceiver {
 public:
  /// Creates the server shard. Call it when the plan is known, before workers send frames. `peers`
  /// must outlive this object. `trace`: record the frames.
  void open(comm::Plan plan, uint32_t rank, const comm::ServerShard::Options& options, bool trace,
            comm::Outlet& peers);

  /// Destroys the server shard at the end of a view.
  void close();

  comm::Destination destination(comm::NodeId from, const comm::FrameHeader& header) override;
  std::string received(comm::NodeId from, const comm::FrameHeader& header) override;
  void forgotten(comm::NodeId from) override;
  std::string awaiting(comm::NodeId node) const override;

  /// The latest step with a contribution in this view, counted from 1; 0: none yet.
  int64_t step_under_way() const { return step_; }
  /// Sends two reports to the coordinator: the recorded spans, if there are any, and the bytes that
  /// this server has moved, by layer.
  void report(comm::CoordinatorLink& coordinator) const;

 private:
  comm::Plan plan_;
  std::unique_ptr<FlowTrace> trace_;          ///< null unless frames are recorded
  std::unique_ptr<comm::ServerShard> shard_;  ///< null unless open
  int64_t step_ = 0;
};

}  // namespace poseidon::trainer
