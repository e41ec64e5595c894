#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::trainer {

/// Another process has gone on with the run.
class LockLost final : public RunError {
 public:
  using RunError::RunError;
};

/// A run directory has one writer. Its file `run.lock` is locked while that runs, and says who it
/// is; each writer gives it the next fencing number. Where locks do not reach, as between hosts of
/// some network file systems, the number does: who was stopped, and wakes when another has gone on
/// with the run, finds another number.
class RunLock {
 public:
  /// Throws ConfigError that names the holder when another process has it, RunError when it cannot
  /// be taken.
  explicit RunLock(const std::filesystem::path& run);

  /// Whether this process is known to be the writer still.
  bool is_held() const;
  /// Throws LockLost that names the other process when this one is not the writer any more,
  /// RunError when that cannot be read, as when a file server does not answer.
  void check() const;

  /// What `run.lock` says; "" when there is none. For a process that writes for the writer. Throws
  /// RunError.
  static std::string text_in(const std::filesystem::path& run);

 private:
  std::filesystem::path run_;
  Descriptor file_;  ///< locked
  std::string words_;
};

}  // namespace poseidon::trainer
