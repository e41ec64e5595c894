#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// Writes a checkpoint into the folder of a coordinator that seems to be gone, unless a whole one
/// of that step is there: several survivors call this at about the same time, in processes of their
/// own. One writes at a time; what a dead writer left half done is removed. Waits for its turn for
/// `period` at most. `may_write` is called when the turn has come, and again before the checkpoint
/// gets its name: it throws RunError when another run has the folder. Whether it wrote. Throws
/// RunError.
bool write_survivor_checkpoint(const std::filesystem::path& folder, const RunState& state,
                               const RunTensors& tensors, std::chrono::milliseconds period,
                               const std::function<void()>& may_write);

}  // namespace poseidon::trainer
