#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Writes a checkpoint into the folder of a coordinator that seems to be gone, unless a whole one
/// of that step is there: several survivors call this at about the same time, in processes of their
/// own. One writes at a time; what a dead writer left half done is removed. Waits for its turn for
/// `period` at most. Calls `may_write` after it has locked the folder, and again before it renames
/// the files; `may_write` throws RunError if another run owns the folder. Returns whether it wrote.
/// Throws RunError.
bool write_survivor_checkpoint(const std::filesystem::path& folder, const RunState& state,
                               const RunTensors& tensors, std::chrono::milliseconds period,
                               const std::function<void()>& may_write);

}  // namespace poseidon::trainer
