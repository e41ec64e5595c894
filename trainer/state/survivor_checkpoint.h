#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Writes a checkpoint into the folder of a coordinator that has probably failed, unless the folder
/// already has an intact one of this step. Several surviving workers, in separate processes, call
/// this at about the same time. A lock on the folder allows one writer at a time. The function
/// removes incomplete files of a failed writer. It waits at most `period` for the lock. It calls
/// `may_write` after it has locked the folder, and again before it writes and before it renames the
/// files. `may_write` throws RunError if another run owns the folder. Returns whether it wrote a
/// checkpoint. Throws RunError.
bool write_survivor_checkpoint(const std::filesystem::path& folder, const RunState& state,
                               const RunTensors& tensors, std::chrono::milliseconds period,
                               const std::function<void()>& may_write);

}  // namespace poseidon::trainer
