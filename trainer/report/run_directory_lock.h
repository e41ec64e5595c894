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

/// A lock that allows only one writer in a run directory. The writer locks the file `run.lock`.
/// This file contains the writer's host and process, and a fencing number, which each new writer
/// increments. Some network file systems do not share locks between hosts, so check() also compares
/// the content. A process that was suspended while another process continued the run finds another
/// number.
class RunDirectoryLock {
 public:
  /// Acquires the lock. Throws ConfigError with the name of the holder if another process has the
  /// lock. Throws ConfigError if the file system has no locks. Throws RunError if the file cannot
  /// be written.
  explicit RunDirectoryLock(const std::filesystem::path& run);

  /// Whether this process is still the writer; false if the file cannot be read.
  bool is_held() const;
  /// Throws LockLost, which names the other process, if this process is no longer the writer.
  /// Throws RunError if the file does not exist or cannot be read, for example because a file
  /// server does not answer.
  void check() const;

  /// The content of `run.lock`; "" if the file does not exist. A worker may write for a failed
  /// coordinator only while this content is unchanged. Throws RunError.
  static std::string text_in(const std::filesystem::path& run);

 private:
  std::filesystem::path run_;
  Descriptor file_;    ///< locked
  std::string words_;  ///< content of `run.lock` that this process has written
};

}  // namespace poseidon::trainer
