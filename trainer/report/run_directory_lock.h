#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::trainer {

/// Another process has continued the run.
class LockLost final : public RunError {
 public:
  using RunError::RunError;
};

/// The lock that gives a run directory a single writer. The writer holds a lock on the file
/// `run.lock`, which identifies the writer. Each writer increments its fencing number. Some network
/// file systems do not share locks between hosts, so the number is checked too. A process that was
/// stopped while another one continued the run finds a different number.
class RunDirectoryLock {
 public:
  /// Throws ConfigError, which names the holder, if another process has the lock. Throws RunError
  /// if it cannot be acquired.
  explicit RunDirectoryLock(const std::filesystem::path& run);

  /// Whether this process is known to still be the writer.
  bool is_held() const;
  /// Throws LockLost, which names the other process, if this process is no longer the writer.
  /// Throws RunError if that cannot be read, for example because a file server does not answer.
  void check() const;

  /// The content of `run.lock`; "" if it does not exist. For a process that writes on behalf of the
  /// writer. Throws RunError.
  static std::string text_in(const std::filesystem::path& run);

 private:
  std::filesystem::path run_;
  Descriptor file_;  ///< locked
  std::string words_;
};

}  // namespace poseidon::trainer
