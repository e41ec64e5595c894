#pragma once

#include <string>
#include <vector>

#include "trainer/coordinator/coordinator_setting.h"

namespace poseidon::trainer {

/// Passes checkpoints from workers' frames to the main thread, which writes them. It lives in the
/// I/O thread.
class CheckpointSession final : public comm::CheckpointReceiver {
 public:
  /// Both must outlive it.
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

  /// A joiner has built its net, and waits for the values of worker 0.
  void transfer_state_to(uint16_t worker);
  /// A worker has sent a checkpoint. Throws ConfigError if the checkpoint is incomplete. This is an
  /// error of the worker, which then fails.
  void take(uint16_t worker, const comm::Note& note);
  /// The job has failed.
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
