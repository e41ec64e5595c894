#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/coordinator_setting.h"

namespace poseidon::trainer {

/// Receives checkpoints from workers. Posts them to the main thread, which writes them. Forwards
/// the values of worker 0 to joiners. Lives in the I/O thread.
class CheckpointSession final : public comm::CheckpointReceiver {
 public:
  /// Both must outlive this object.
  CheckpointSession(const CoordinatorSetting& setting, CoordinatorSide& side)
      : setting_(setting), side_(side) {}

  comm::Destination destination(uint16_t worker, const comm::FrameHeader& header) override {
    return side_.reception.destination(worker, header);
  }
  void received(uint16_t worker, const comm::FrameHeader& header) override;
  std::string tensor_name(size_t index) override { return side_.reception.tensor_name(index); }
  void agreed(int64_t step, const std::vector<int64_t>& digest) override;
  bool wants_checkpoint(int64_t step) override;
  void not_saved(uint16_t worker, const std::string& why) override;

  /// The joiner `worker` has built its net. If all joiners of the view have built theirs, sends
  /// them the list of tensors, and requests the values from worker 0. Does nothing after the end of
  /// the view.
  void transfer_state_to(uint16_t worker);
  /// A worker has sent all tensors of a checkpoint. Posts the checkpoint to the main thread. If the
  /// checkpoint was requested for joiners, only ends their state transfer and informs the worker.
  /// Ignores a checkpoint that was given up. Throws ConfigError if tensors are missing, or if the
  /// checkpoint was not requested. The caller then treats the worker as failed.
  void take(uint16_t worker, const comm::Note& note);
  /// The job has failed: ends the state transfer to joiners. After a replica divergence, requests
  /// no more checkpoints.
  void failed(const comm::NodeFailure& node_failure) {
    side_.state_transfer.end();
    diverged_ = !comm::survivors_are_valid(node_failure);
  }

 private:
  const CoordinatorSetting& setting_;
  CoordinatorSide& side_;
  bool diverged_ = false;  ///< replicas have diverged, and the correct one is unknown
};

}  // namespace poseidon::trainer
