#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/run_directory.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Writes the checkpoints of a run, removes old ones, and stores which one is the last. Used by one
/// thread.
class CheckpointFiles {
 public:
  /// `directory` must outlive this object; `keep`: train.keep_checkpoints.
  CheckpointFiles(RunDirectory& directory, int64_t keep) : directory_(directory), keep_(keep) {}

  /// Sets the checkpoint from which the run continues. It is the last one until write().
  void begin_from(int64_t step, const std::filesystem::path& file);
  /// Writes the checkpoint of step `state.step`, then removes old ones. `agreed`: expected digests
  /// of the tensors; null: not checked. Throws RunError. If the checkpoint was not written, the
  /// previous one remains the last one.
  void write(const RunState& state, const RunTensors& tensors,
             const std::vector<int64_t>* agreed = nullptr);

  /// Step of the last checkpoint; nullopt or 0 if there is none.
  std::optional<int64_t> last_step() const { return last_step_; }
  /// Weights file of the last checkpoint; "" if there is none.
  const std::filesystem::path& last() const { return last_; }
  /// "; the last checkpoint is ...", or "; there is no checkpoint yet", to append to a message.
  std::string last_text() const;

 private:
  RunDirectory& directory_;
  const int64_t keep_;
  std::optional<int64_t> last_step_;
  std::filesystem::path last_;
};

}  // namespace poseidon::trainer
