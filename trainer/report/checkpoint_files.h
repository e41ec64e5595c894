#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/run_directory.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// The checkpoints in a run's directory: writes them, keeps as many as the job says, and knows the
/// last one. Used by one thread.
class CheckpointFiles {
 public:
  /// `directory` must outlive it; `keep`: train.keep_checkpoints.
  CheckpointFiles(RunDirectory& directory, int64_t keep) : directory_(directory), keep_(keep) {}

  /// The run goes on from this one.
  void begin_from(int64_t step, const std::filesystem::path& file);
  /// Writes the step `state.step`. `agreed`, which may be null, is what the digests of the tensors
  /// must be. Throws RunError, and then the checkpoint before stays the last one.
  void write(const RunState& state, const RunTensors& tensors,
             const std::vector<int64_t>* agreed = nullptr);

  /// The step of the last one; none before the first.
  std::optional<int64_t> last_step() const { return last_step_; }
  /// The weights of the last one; "" before the first.
  const std::filesystem::path& last() const { return last_; }
  /// "; the last checkpoint is ...", for messages.
  std::string last_text() const;

 private:
  RunDirectory& directory_;
  const int64_t keep_;
  std::optional<int64_t> last_step_;
  std::filesystem::path last_;
};

}  // namespace poseidon::trainer
