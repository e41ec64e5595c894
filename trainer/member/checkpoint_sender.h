#pragma once

#include <atomic>
#include <cstdint>

#include "trainer/member/progress.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/send_window.h"

namespace poseidon::trainer {

class WorkerSession;

/// Sends a worker's checkpoints to the coordinator, one tensor at a time and one checkpoint at a
/// time. Used by the compute thread, except where noted.
class CheckpointSender {
 public:
  /// Both arguments must outlive this object.
  CheckpointSender(WorkerSession& session, ProgressReporter& progress);

  /// Sends the state after `step`, including the sums of `in_flight` steps. Returns after the last
  /// tensor is posted to the I/O thread. Blocks until the previous checkpoint is written, and while
  /// the send window is full. Throws JobFailed after end().
  void send(int64_t step, const RunTensors& tensors, int64_t in_flight);
  /// Step of the last sent checkpoint; -1: none.
  int64_t sent_step() const { return sent_step_; }
  /// Sets sent_step() to -1. Call it after a checkpoint for joiners, which is not a checkpoint of
  /// the run. The run's checkpoint of the same step may follow.
  void forget_sent() { sent_step_ = -1; }
  /// Blocks until the last checkpoint is written. Throws JobFailed after end().
  void wait_until_written();
  /// Undoes end(), so that the worker can send checkpoints again: in the next view, or once after
  /// the job has failed.
  void reopen();

  /// Reports that the coordinator has written the checkpoint of `step`. Called by any thread.
  void written(int64_t step) { window_.written(step); }
  /// Drops the checkpoint in progress. Until reopen(), all waits throw JobFailed. Called in the I/O
  /// thread.
  void end();

 private:
  void send_tensor(int64_t step, uint32_t index, const NamedTensor& tensor);

  WorkerSession& session_;
  ProgressReporter& progress_;
  SendWindow window_;
  int64_t sent_step_ = -1;
  std::atomic<uint32_t> number_ = 0;  ///< number of the last checkpoint, in its frames
  uint32_t dropped_ = 0;  ///< number of the last dropped checkpoint; used by the I/O thread
};

}  // namespace poseidon::trainer
