#pragma once

#include <filesystem>
#include <string>

#include "core/file.h"

namespace poseidon::trainer {

/// A run directory has one writer. Its file `run.lock` is locked while that runs, and says who it
/// is; each writer gives it the next fencing number. Where locks do not reach, as between hosts of
/// some network file systems, the number does: who was stopped, and wakes when another has gone on
/// with the run, finds another number.
class RunLock {
 public:
  /// Throws ConfigError that names the holder when another process has it, RunError when it cannot
  /// be taken.
  explicit RunLock(const std::filesystem::path& run);

  /// Whether this process is the writer still.
  bool is_held() const { return text_in(run_) == words_; }
  /// Throws RunError that names the other process when this one is not the writer any more.
  void check() const;

  /// What `run.lock` says; "" when there is none. For a process that writes for the writer.
  static std::string text_in(const std::filesystem::path& run);

 private:
  std::filesystem::path run_;
  Descriptor file_;  ///< locked
  std::string words_;
};

}  // namespace poseidon::trainer
