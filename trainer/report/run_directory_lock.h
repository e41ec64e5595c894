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

/// A lock that allows only one writer in a run directory. The writer locks the file `run.lock`. The
/// file contains the host and process of the writer, and a fencing number, which each new writer
/// increments. Some network file systems do not share locks between hosts, so the lock also checks
/// the content. A process that was stopped while another process continued the run finds another
/// number.
class RunDirectoryLock {
 public:
  /// Throws ConfigError, which names the holder, if another process has the lock. Throws RunError
  /// if it cannot be acquired.
  explicit RunDirectoryLock(const std::filesystem::path& run);

  /// Whether this process is known to still be the writer.
  bool is_held() const;
  /// Throws LockLost, which names the other process, if this process is no longer the writer.
  /// Throws RunError if the file does not exist or cannot be read, for example because a file
  /// server does not answer.
  void check() const;

  /// The content of `run.lock`; "" if it does not exist. Used by a process that writes on behalf of
  /// the writer. Throws RunError.
  static std::string text_in(const std::filesystem::path& run);

 private:
  std::filesystem::path run_;
  Descriptor file_;  ///< locked
  std::string words_;
};

}  // namespace poseidon::trainer
