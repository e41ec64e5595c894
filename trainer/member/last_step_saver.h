#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "core/log.h"
#include "trainer/member/member_options.h"
#include "trainer/member/worker_training.h"

namespace poseidon::trainer {

/// Saves a worker's last complete step after a run has ended early. Stores the step in memory, so
/// that a resumed run can fetch it. If the coordinator that started this process has failed, also
/// writes the step to a file. Used by the compute thread.
class LastStepSaver {
 public:
  /// Both arguments must outlive this object. Create it while the coordinator is known to be alive:
  /// it reads the coordinator's run.lock.
  LastStepSaver(const MemberOptions& options, Log& log);

  /// The in-memory checkpoint of run `run`; null if there is none.
  InMemoryCheckpoint* kept(const std::string& run) const;
  /// Drops the in-memory checkpoint of run `run`. Call it when the run has continued.
  void drop(const std::string& run);
  /// Stores `step`, at which `training` stopped, because the coordinator may not have saved it.
  /// Only logs a failure. Stores nothing without MemberOptions::checkpoint_store, or if the job's
  /// rejoin_s is 0. Also stores nothing if `node_failure` means that the survivors' values may be
  /// wrong, or if `training` has completed no step. `reports` are the reports that the coordinator
  /// may not have recorded.
  void keep(const WorkerTraining& training, const PreparedJob& job, int64_t step,
            const comm::NodeFailure& node_failure, std::vector<std::string> reports);
  /// Writes a checkpoint of `step` into the run directory of the failed coordinator. Does nothing
  /// unless that coordinator started this process, and for a step before this worker's first step.
  /// Only logs a failure. All survivors have the same bytes after a step, so any survivor may write
  /// first.
  void write(const WorkerTraining& training, int64_t step);

  /// Time limit for storing or writing.
  static constexpr std::chrono::seconds kGracePeriod{120};

 private:
  const MemberOptions& options_;
  Log& log_;
  const std::string run_lock_;  ///< in a child of the coordinator: content of the parent's run.lock
                                ///< at construction
};

}  // namespace poseidon::trainer
