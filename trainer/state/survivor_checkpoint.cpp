#include "trainer/state/survivor_checkpoint.h"

#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "trainer/state/directory_lock.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

bool is_whole(const fs::path& state_file) {
  if (!fs::exists(state_file)) return false;
  try {
    const Checkpoint checkpoint(state_file);
    return true;
  } catch (const RunError&) {
    return false;
  }
}

}  // namespace

bool write_survivor_checkpoint(const fs::path& folder, const RunState& state,
                               const RunTensors& tensors, std::chrono::milliseconds period,
                               const std::function<void()>& may_write) {
  std::optional<DirectoryLock> turn;
  bool has_stopped_writer = false;
  try {
    turn.emplace(folder, period);
  } catch (const DirectoryLocked&) {
    has_stopped_writer = true;
    turn.emplace(folder.parent_path(), period);
  }
  may_write();
  // A stopped writer that continues needs its temporary files.
  if (!has_stopped_writer) remove_temporary_files(folder);
  if (is_whole(folder / text("step-", state.step, ".state"))) return false;
  write_checkpoint(folder, state, tensors, {.may_write = may_write});
  return true;
}

}  // namespace poseidon::trainer
