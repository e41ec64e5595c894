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
  /// Only reads. Throws ConfigError for a folder that is not empty, unless `resumed`, or unless it
  /// is from a process that was killed before its first step.
  RunDirectory(std::filesystem::path path, bool resumed);
  /// Creates an empty folder "runs/<name>-<date>-<time>", with a number at its end if another
  /// process has created that one. Throws RunError.
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
  /// The run has begun: the folder stays, whatever the outcome.
  void keep() { kept_ = true; }
  /// Throws RunError if another process has continued this run.
  void check_lock() const;

  /// 32 random hexadecimal digits from the creation of the folder. They stay the same when the run
  /// is resumed. Valid after make().
  const std::string& id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Writes the resolved job next to a copy of its network: a job file that can be run again.
  void write_config(const Job& job) const;
  void write(const char* file, const Json& json) const;
  /// The same at the end of a run: a failed write is only a warning.
  void write_or_warn(const char* file, const Json& json, Log& log) const;

 private:
  std::filesystem::path path_;
  bool resumed_ = false, kept_ = false;
  bool changed_ = false;        ///< the folder or files in it may have been created
  std::filesystem::path made_;  ///< the uppermost folder that was created; "": none
  std::optional<RunDirectoryLock> lock_;
  std::string id_;
};

/// The run directory of --resume, which names it or one of its checkpoints; "" for a checkpoint
/// outside a run directory.
std::filesystem::path run_directory_of(const std::filesystem::path& run_or_file);

/// The job file of the run of --resume, which names it or one of its checkpoints. Throws
/// ConfigError, which names the missing file.
std::filesystem::path job_file_of(const std::filesystem::path& run_or_file);

/// Opens the run directory `output`, or else the one of `resume`, which continues, or else a new
/// one for a job with name `name`.
RunDirectory open_run_directory(const std::filesystem::path& output,
                                const std::filesystem::path& resume, const std::string& name);

/// The command that continues the run in `folder` after `step`, quoted for a shell.
std::string resume_command(const std::filesystem::path& folder, const RunOptions& options,
                           int64_t step);

/// The message of a stopped run, with the command that continues it.
std::string stopped_text(int64_t step, int64_t steps, const std::string& command);

}  // namespace poseidon::trainer
