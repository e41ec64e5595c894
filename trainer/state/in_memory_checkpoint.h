#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/state/checkpoint.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// An in-memory checkpoint: the last complete step of a run that ended early.
struct InMemoryCheckpoint {
  std::string run;  ///< RunDirectory::id()
  RunState state;
  std::shared_ptr<TensorStore> tensors;
  int64_t rank = 0;  ///< rank of the worker in the last view
  /// The encoded reports of the last steps. The coordinator may lack these reports.
  std::vector<std::string> reports = {};
};

/// Copies a run's tensors and state.
InMemoryCheckpoint copy_step(const std::string& run, const RunState& state,
                             const RunTensors& tensors);

/// Stores one in-memory checkpoint in a worker daemon, from one job to the next, for a limited
/// time. A coordinator that resumes the run may fetch it. Used by one thread.
class InMemoryCheckpointStore {
 public:
  using Clock = std::chrono::steady_clock;

  /// Stores `step` until it expires at `until`. Drops the checkpoint that was stored before.
  void keep(InMemoryCheckpoint step, Clock::time_point until);
  /// The stored checkpoint of this run; null if there is none.
  InMemoryCheckpoint* of(const std::string& run) {
    return kept_ && kept_->run == run ? &*kept_ : nullptr;
  }
  /// Drops the stored checkpoint if it belongs to this run.
  void drop(const std::string& run);
  /// Drops the checkpoint if it has expired. Returns a message about the dropped checkpoint; "" if
  /// none was dropped.
  std::string give_up(Clock::time_point now);
  /// Time until the stored checkpoint expires, rounded up; 0 if none is stored or it has expired.
  std::chrono::seconds left(Clock::time_point now) const;

 private:
  std::optional<InMemoryCheckpoint> kept_;
  Clock::time_point until_{};
};

}  // namespace poseidon::trainer
