#include "trainer/state/survivor_checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

/// A lock on the folder, which ends with the returned descriptor or its process. The wait for it
/// has an end: who holds it may be stopped.
Descriptor take_turn(const fs::path& folder, std::chrono::milliseconds period) {
  const auto deadline = std::chrono::steady_clock::now() + period;
  Descriptor place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (place.number() < 0)
    throw RunError(text(folder.string(), ": cannot be opened: ", std::strerror(errno)));
  while (::flock(place.number(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw RunError(folder.string() + ": another survivor has been writing for too long");
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return place;
}

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
                               const RunTensors& tensors, std::chrono::milliseconds period) {
  const Descriptor turn = take_turn(folder, period);
  remove_half_done(folder);
  if (is_whole(folder / text("step-", state.step, ".state"))) return false;
  write_checkpoint(folder, state, tensors);
  return true;
}

}  // namespace poseidon::trainer
