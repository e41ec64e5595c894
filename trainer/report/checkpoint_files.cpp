#include "trainer/report/checkpoint_files.h"

#include "trainer/state/directory_lock.h"

namespace poseidon::trainer {

namespace {

/// Limit on waiting for the lock of the checkpoint folder. A local worker that considers this
/// process dead may hold the lock while it writes a checkpoint.
constexpr auto kMostWaiting = std::chrono::seconds(10);

}  // namespace

void CheckpointFiles::begin_from(int64_t step, const std::filesystem::path& file) {
  last_step_ = step;
  last_ = file;
}

void CheckpointFiles::write(const RunState& state, const RunTensors& tensors,
                            const std::vector<int64_t>* agreed) {
  const DirectoryLock turn(directory_.checkpoints(), kMostWaiting);
  last_ = write_checkpoint(directory_.checkpoints(), state, tensors,
                           {.agreed = agreed, .may_write = [this] { directory_.check_lock(); }});
  last_step_ = state.step;
  directory_.keep();
  prune_checkpoints(directory_.path(), keep_, state.step);
}

std::string CheckpointFiles::last_text() const {
  return last_.empty() ? "; there is no checkpoint yet"
                       : "; the last checkpoint is " + last_.string();
}

}  // namespace poseidon::trainer
