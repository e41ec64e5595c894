#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "core/log.h"
#include "trainer/member/member_options.h"
#include "trainer/member/worker_training.h"

namespace poseidon::trainer {

/// What becomes of a worker's last complete step when a run has ended before its time: it is kept
/// in memory for who goes on with the run, and written where the coordinator cannot do that any
/// more. Used by the compute thread.
class LastStep {
 public:
  /// Both must outlive it. Made before the coordinator can be lost.
  LastStep(const MemberOptions& options, Log& log);

  /// The step of run `run` that is kept; null where none is.
  KeptStep* kept(const std::string& run) const;
  /// The run has gone on: what was kept of it is of no use.
  void drop(const std::string& run);
  /// Keeps the step that `training` has ceased with: the coordinator may be gone, or have had no
  /// room for a checkpoint. `reports`: of the last steps, which it may not have recorded.
  void keep(const WorkerTraining& training, const PreparedJob& job, int64_t step,
            const comm::Loss& loss, std::vector<std::string> reports);
  /// The coordinator is gone. A child of it writes into its run directory what it would have
  /// written; all survivors of one step have the same bytes, so it does not matter who comes first.
  void write(const WorkerTraining& training, int64_t step);

  /// How long keeping or writing may take.
  static constexpr std::chrono::seconds kGracePeriod{120};

 private:
  const MemberOptions& options_;
  Log& log_;
  const std::string run_lock_;  ///< of a child: its parent's, as it was when this began
};

}  // namespace poseidon::trainer
