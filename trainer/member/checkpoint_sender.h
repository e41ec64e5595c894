#pragma once

#include <atomic>
#include <cstdint>

#include "trainer/member/progress.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/send_window.h"

namespace poseidon::trainer {

class WorkerSession;

/// A worker's checkpoints on their way to the coordinator: tensor by tensor, one checkpoint at a
/// time. For the computing thread, but for what says otherwise.
class CheckpointSender {
 public:
  /// All must outlive it.
  CheckpointSender(WorkerSession& session, ProgressReporter& progress);

  /// Returns when the last tensor was handed to the transport. Waits for room on the way, and first
  /// for the checkpoint before to be written. Throws JobLost after end().
  void send(int64_t step, const RunTensors& tensors, int64_t in_flight);
  /// The step that was sent last; -1: none.
  int64_t sent_step() const { return sent_step_; }
  /// What was sent last was no checkpoint of the run: one of that step may follow.
  void forget_sent() { sent_step_ = -1; }
  /// Throws JobLost after end().
  void wait_until_written();
  /// The job has failed, and what comes now is of a survivor.
  void begin_anew();

  // From any thread.
  void written(int64_t step) { window_.written(step); }
  /// Nobody waits any more: what has been begun comes to nothing. In the I/O thread.
  void end();

 private:
  void send_tensor(int64_t step, uint32_t index, const NamedTensor& tensor);

  WorkerSession& session_;
  ProgressReporter& progress_;
  SendWindow window_;
  int64_t sent_step_ = -1;
  std::atomic<uint32_t> number_ = 0;  ///< of the checkpoint, as its frames count
  uint32_t dropped_ = 0;              ///< of the last that comes to nothing; the I/O thread's
};

}  // namespace poseidon::trainer
