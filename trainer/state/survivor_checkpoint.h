#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Writes a checkpoint into the folder of a coordinator that has probably failed, unless the folder
/// already has an intact one of this step. Several surviving workers, in separate processes, call
/// this at about the same time. A lock on the folder allows one writer at a time. The function
/// removes incomplete files of a failed writer. If the lock stays held for `period`, the
/// coordinator was probably stopped during a write. Survivors then lock the parent folder instead,
/// for which they also wait at most `period`, and remove nothing. The coordinator's files have
/// other temporary names, and equal bytes if they are of this step. The function calls `may_write`
/// after it has locked a folder, and again before it writes and before it renames the files.
/// `may_write` throws RunError if another run owns the folder. Returns whether it wrote a
/// checkpoint. Throws RunError.
bool write_survivor_checkpoint(const std::filesystem::path& folder, const RunState& state,
                               const RunTensors& tensors, std::chrono::milliseconds period,
                               const std::function<void()>& may_write);

}  // namespace poseidon::trainer
