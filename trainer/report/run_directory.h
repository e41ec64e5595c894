#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/log.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/report/run_lock.h"

namespace poseidon::trainer {

/// Names of the classes, in order of their labels: {"classes": [...]}.
inline constexpr const char* kClassesFile = "classes.json";

/// Where a run keeps what it makes: run.json, config.json, network.json, classes.json, plan.json,
/// traffic.json, metrics.jsonl, sessions.jsonl, summary.json, console.log, the TensorBoard file and
/// checkpoints/.
class RunDirectory {
 public:
  /// Only looks. A folder that is not empty is refused with ConfigError unless `resumed`, or unless
  /// a process that was killed before its first step has left it.
  RunDirectory(std::filesystem::path path, bool resumed);
  /// Makes an empty folder "runs/<name>-<date>-<time>", with a number after it where another
  /// process has that one. Throws RunError.
  explicit RunDirectory(const std::string& name);
  /// A folder that was made for a run that did not begin is removed.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Makes the folder, locks it, and removes what a killed writer has left half done. Throws
  /// ConfigError when another process writes there, RunError when it cannot be made.
  void make();
  /// Removes what a writer that was killed has left half done; nothing where another process has
  /// gone on with this run.
  void tidy() const;
  /// The run has begun: the folder stays, however it ends.
  void keep() { kept_ = true; }
  /// Throws RunError when another process has gone on with this run.
  void check_lock() const;

  /// 32 hexadecimal digits, made at random with the folder: the same however often the run is gone
  /// on with. Valid after make().
  const std::string& id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// The resolved job beside a copy of its network: a job file that can be run again.
  void write_config(const Job& job) const;
  void write(const char* file, const Json& json) const;
  /// The same at the end of a run: what cannot be written is told of, and not more.
  void write_or_warn(const char* file, const Json& json, Log& log) const;

 private:
  std::filesystem::path path_;
  bool resumed_ = false, kept_ = false;
  bool changed_ = false;        ///< there may be something in the folder, or the folder itself
  std::filesystem::path made_;  ///< the uppermost folder that was not there before; "": none
  std::optional<RunLock> lock_;
  std::string id_;
};

/// The run directory that "--resume" names, itself or by one of its checkpoints; "" for a
/// checkpoint that lies in none.
std::filesystem::path run_directory_of(const std::filesystem::path& run_or_file);

/// The job file of the run that "--resume" names, itself or by one of its checkpoints. Throws
/// ConfigError that says what is missing.
std::filesystem::path job_file_of(const std::filesystem::path& run_or_file);

/// The run directory that is asked for: `output`, else the one that `resume` names, which is gone
/// on with, else a new one for a job called `name`.
RunDirectory open_run_directory(const std::filesystem::path& output,
                                const std::filesystem::path& resume, const std::string& name);

/// The command that continues the run in `folder`, which has come to `step`, as a shell reads it.
std::string resume_command(const std::filesystem::path& folder, const RunOptions& options,
                           int64_t step);

/// What a run that was stopped says, and how it goes on.
std::string stopped_text(int64_t step, int64_t steps, const std::string& command);

}  // namespace poseidon::trainer
