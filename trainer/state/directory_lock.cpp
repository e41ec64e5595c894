#include "trainer/state/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& folder, std::chrono::milliseconds period)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_.number() < 0)
    throw RunError(text(folder.string(), ": cannot be opened: ", std::strerror(errno)));
  const auto deadline = std::chrono::steady_clock::now() + period;
  while (::flock(folder_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw DirectoryLocked(folder.string() + ": another process still holds the directory lock");
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace poseidon::trainer
