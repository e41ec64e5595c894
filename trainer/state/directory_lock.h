#pragma once

#include <chrono>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::trainer {

/// Another process holds the lock of a folder.
class DirectoryLocked final : public RunError {
 public:
  using RunError::RunError;
};

/// Directory lock for a folder of checkpoints: one process at a time writes. A worker without a
/// connection to its coordinator cannot know whether the coordinator still writes. The lock is
/// released when this object is destroyed or its process ends.
class DirectoryLock {
 public:
  /// Locks `folder`. Waits at most `period`, because the process with the lock may be stopped.
  /// Throws DirectoryLocked if the folder stays locked, and RunError if it cannot be opened.
  DirectoryLock(const std::filesystem::path& folder, std::chrono::milliseconds period);

 private:
  Descriptor folder_;  ///< locked
};

}  // namespace poseidon::trainer
