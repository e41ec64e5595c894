#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/run_directory_lock.h"

namespace poseidon::trainer {

/// Names of the classes, in order of their labels: {"classes": [...]}.
inline constexpr const char* kClassesFile = "classes.json";

/// The folder with the files of a run: run.json, config.json, network.json, classes.json,
/// plan.json, traffic.json, metrics.jsonl, sessions.jsonl, summary.json, console.log, the
/// TensorBoard file and checkpoints/.
class RunDirectory {
 public:
  /// Only reads. Throws ConfigError if the folder is not empty. Two folders are allowed: that of a
  /// resumed run, and that of a process that was killed before its first step.
  RunDirectory(std::filesystem::path path, bool resumed);
  /// Creates an empty folder "runs/<name>-<date>-<time>", and appends a number if another process
  /// has created a folder with this name. Throws RunError.
  explicit RunDirectory(const std::string& name);
  /// Removes a folder that was created for a run that did not begin.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Creates and locks the folder, and removes incomplete files of a killed writer. Throws
  /// ConfigError if another process writes there, RunError if the folder cannot be created.
  void make();
  /// Removes incomplete files of a killed writer. Does nothing if another process has continued
  /// this run.
  void tidy() const;
  /// Call it when the run has begun: the destructor then does not remove the folder.
  void keep() { kept_ = true; }
  /// Whether the folder stays when the run ends.
  bool is_kept() const { return kept_ || resumed_; }
  /// Throws RunError if another process has continued this run.
  void check_lock() const;

  /// 32 random hexadecimal digits, chosen when the folder was created. A resumed run has the same
  /// digits. Valid after make().
  const std::string& id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Writes the resolved job next to a copy of its network: a job file that can be run again.
  void write_config(const Job& job) const;
  void write(const char* file, const Json& json) const;
  /// As write(), but a failed write is only a warning. For the end of a run.
  void write_or_warn(const char* file, const Json& json, Log& log) const;

 private:
  std::filesystem::path path_;
  bool resumed_ = false, kept_ = false;
  bool changed_ = false;        ///< the folder or files in it may have been created
  std::filesystem::path made_;  ///< the uppermost folder that was created; "": none
  std::optional<RunDirectoryLock> lock_;
  std::string id_;
};

/// The run directory for an argument of --resume or --weights: the directory, or a checkpoint in
/// it. "" for a checkpoint outside a run directory.
std::filesystem::path run_directory_of(const std::filesystem::path& run_or_file);

/// The job file of the run that --resume names: by its directory, or by one of its checkpoints.
/// Throws ConfigError, which names the missing file.
std::filesystem::path job_file_of(const std::filesystem::path& run_or_file);

/// Opens the run directory `output`. Without `output`, opens the directory of the resumed run.
/// Without both, creates a new directory for the job `name`.
RunDirectory open_run_directory(const std::filesystem::path& output,
                                const std::filesystem::path& resume, const std::string& name);

/// The command that continues the run in `folder` after `step`, quoted for a shell.
std::string resume_command(const std::filesystem::path& folder, const RunOptions& options,
                           int64_t step);

/// The message of a stopped run, with the command that continues it.
std::string stopped_text(int64_t step, int64_t steps, const std::string& command);

}  // namespace poseidon::trainer
