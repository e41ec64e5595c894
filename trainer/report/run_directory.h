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

/// File with the names of the classes, in the order of their labels: {"classes": [...]}.
inline constexpr const char* kClassesFile = "classes.json";

/// The folder with the files of a run: run.json, config.json, network.json, classes.json,
/// plan.json, traffic.json, metrics.jsonl, sessions.jsonl, summary.json, trace.json, console.log,
/// run.lock, the TensorBoard files, logs/ and checkpoints/. Not every run has all of them.
class RunDirectory {
 public:
  /// For the folder `path`, which make() creates. Throws ConfigError if `path` is a file, or a
  /// folder that is not empty. Two kinds of non-empty folders are allowed: that of the resumed run
  /// (`resumed`), and that of a run that ended before its first step.
  RunDirectory(std::filesystem::path path, bool resumed);
  /// Creates an empty folder "runs/<name>-<date>-<time>". If a folder with this name exists,
  /// appends a number. Throws RunError.
  explicit RunDirectory(const std::string& name);
  /// If keep() was not called, removes the folder and the parent folders that this object created.
  /// If this object did not create the folder, removes only its content, and only if make() was
  /// called. Does not change the folder of a resumed run, or a folder that another process has
  /// locked.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Creates and locks the folder, removes temporary files of a killed process, and reads or
  /// creates the id of the run. Throws ConfigError if another process writes there, RunError if the
  /// folder cannot be created.
  void make();
  /// Removes temporary files of a killed process. Does nothing if another process has continued
  /// this run.
  void tidy() const;
  /// Prevents the destructor from removing the folder. Call it when a step is complete, or if a
  /// message names a file in the folder.
  void keep() { kept_ = true; }
  /// Whether the folder stays when the run ends.
  bool is_kept() const { return kept_ || resumed_; }
  /// Throws LockLost if another process has continued this run, and RunError if the folder no
  /// longer exists or cannot be read. Does nothing before make().
  void check_lock() const;

  /// Id of the run: 32 random hexadecimal digits, chosen when the folder was created. A resumed run
  /// keeps its id. Valid after make().
  const std::string& id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Writes config.json (the resolved job) and network.json. Together they are a job that can be
  /// run again.
  void write_config(const Job& job) const;
  /// Writes a file of the folder. Throws RunError, and LockLost if another process has continued
  /// this run.
  void write(const char* file, const Json& json) const;
  /// Writes a file as write(), but only warns if this fails, for use at the end of a run.
  void write_or_warn(const char* file, const Json& json, Log& log) const;

 private:
  std::filesystem::path path_;
  bool resumed_ = false, kept_ = false;
  bool changed_ = false;        ///< the folder or files in it may have been created
  std::filesystem::path made_;  ///< the uppermost folder that this object created; "": none
  std::optional<RunDirectoryLock> lock_;
  std::string id_;
};

/// The run directory for an argument of --resume or --weights: the argument itself if it is a
/// folder, or the run directory that contains this checkpoint file. "" for a file outside a run
/// directory.
std::filesystem::path run_directory_of(const std::filesystem::path& run_or_file);

/// The job file (config.json) of the run that --resume names by its directory or one of its
/// checkpoints. Throws ConfigError if the run or its config.json is missing.
std::filesystem::path job_file_of(const std::filesystem::path& run_or_file);

/// Opens the run directory `output`. Without `output`, opens the directory of the resumed run.
/// Without either, creates a new directory for the job `name`. Throws ConfigError or RunError as
/// the constructors of RunDirectory.
RunDirectory open_run_directory(const std::filesystem::path& output,
                                const std::filesystem::path& resume, const std::string& name);

/// The command that continues the run in `folder` after `step`, quoted for a shell. It has
/// --max-steps if the run has stopped before this limit.
std::string resume_command(const std::filesystem::path& folder, const RunOptions& options,
                           int64_t step);

/// The message of a stopped run, with the command that continues it.
std::string stopped_text(int64_t step, int64_t steps, const std::string& command);

}  // namespace poseidon::trainer
