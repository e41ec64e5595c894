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

/// The last complete step of a run that ended before its time: a checkpoint in memory.
struct KeptStep {
  std::string run;  ///< RunDirectory::id()
  RunState state;
  std::shared_ptr<TensorStore> tensors;
  int64_t rank = 0;                       ///< of the worker in the last view
  std::vector<std::string> reports = {};  ///< of the last steps, as messages
};

/// A copy of a run's tensors, with what a checkpoint says beside them.
KeptStep copy_step(const std::string& run, const RunState& state, const RunTensors& tensors);

/// What a long-lived worker keeps from one job to the next: one step, for a while. Whoever goes on
/// with its run may ask for it. Used by one thread.
class StepKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  /// In place of what was kept before.
  void keep(KeptStep step, Clock::time_point until);
  /// Null where nothing of this run is kept.
  KeptStep* of(const std::string& run) { return kept_ && kept_->run == run ? &*kept_ : nullptr; }
  void drop(const std::string& run);
  /// Gives up what has been kept for long enough; says what, or "".
  std::string give_up(Clock::time_point now);
  /// How much longer it keeps something, rounded up.
  std::chrono::seconds left(Clock::time_point now) const;

 private:
  std::optional<KeptStep> kept_;
  Clock::time_point until_{};
};

}  // namespace poseidon::trainer
